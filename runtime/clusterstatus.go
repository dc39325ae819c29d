package runtime

import (
	"fmt"
	"slices"
	"time"
)

// ClusterStatus is what a node knows of the sets of its cluster.
type ClusterStatus struct {
	// State is current, unreachable or notServed: package cluster.
	State string `json:"state"`
	// Since is when the state began, and Reason why it is another than current.
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// FirstSync is when the node first had the sets and its own roles.
	FirstSync time.Time `json:"firstSync,omitzero"`
	// Kept are sets that the cluster's API has lost, or has in an older generation, though nobody has deleted or changed
	// them.
	Kept []string `json:"kept,omitempty"`
	// NoPool are sets that count for no node: on OpenShift, those without a role label.
	NoPool []string `json:"noPool,omitempty"`
	// Refused are sets of the cluster that are not taken, and why.
	Refused []string `json:"refused,omitempty"`
	// Operator is what the Machine Config Operator reports of the sets that count for the node, if it pins there.
	Operator []OperatorSet `json:"operator,omitempty"`
}

// OperatorSet is a set in the node's MachineConfigNode, beside the generation that the API has. Generations are 0 if
// the operator has none.
type OperatorSet struct {
	Name                      string `json:"name"`
	Generation                int64  `json:"generation"`
	CurrentGeneration         int64  `json:"currentGeneration,omitempty"`
	DesiredGeneration         int64  `json:"desiredGeneration,omitempty"`
	LastFailedGeneration      int64  `json:"lastFailedGeneration,omitempty"`
	LastFailedGenerationError string `json:"lastFailedGenerationError,omitempty"`
}

// OperatorLines compare what the Machine Config Operator reports with what the API has and with what is on the node.
func (s Status) OperatorLines() (lines []string) {
	if s.Cluster == nil {
		return nil
	}
	for _, o := range s.Cluster.Operator {
		here := s.set(o.Name)
		about := "Machine Config Operator: set " + o.Name + ": "
		switch {
		case o.DesiredGeneration == 0:
			lines = append(lines, about+"it does not have the set yet")
		case o.DesiredGeneration < o.Generation:
			lines = append(lines, fmt.Sprintf("%sit has generation %d, and the API %d", about, o.DesiredGeneration,
				o.Generation))
		case o.LastFailedGeneration == o.DesiredGeneration && o.CurrentGeneration < o.DesiredGeneration:
			lines = append(lines, fmt.Sprintf("%sgeneration %d failed: %s", about, o.LastFailedGeneration,
				o.LastFailedGenerationError))
		case o.CurrentGeneration == o.Generation && here.Pinned < here.Images:
			lines = append(lines, fmt.Sprintf("%sit reports generation %d as complete, and %d of %d images are pinned here",
				about, o.CurrentGeneration, here.Pinned, here.Images))
		case o.CurrentGeneration < o.Generation && here.Pinned == here.Images:
			lines = append(lines, fmt.Sprintf("%sall images are pinned here, and it has yet to report generation %d", about,
				o.Generation))
		}
	}
	return lines
}

// Lines describe what is to be known besides the images.
func (c *ClusterStatus) Lines() (lines []string) {
	if c == nil {
		return nil
	}
	at := c.Since.UTC().Format(time.RFC3339)
	switch c.State {
	case "unreachable":
		lines = append(lines, fmt.Sprintf(
			"since %s the API of the cluster does not answer, and its sets stay as they were: %s", at, c.Reason))
	case "notServed":
		lines = append(lines, fmt.Sprintf("since %s the cluster has no sets, and those that it had stay: %s", at, c.Reason))
	}
	for _, name := range c.Kept {
		lines = append(lines, fmt.Sprintf(
			"set %s of the cluster stays, though the API has lost it or has an older one", name))
	}
	for _, text := range c.Refused {
		lines = append(lines, "not taken of the cluster: set "+text)
	}
	for _, name := range c.NoPool {
		lines = append(lines, fmt.Sprintf("set %s of the cluster is for no pool: it has no role label", name))
	}
	return lines
}

// check refuses texts that would change a terminal.
func (c *ClusterStatus) check() error {
	if c == nil {
		return nil
	}
	texts := slices.Concat([]string{c.State, c.Reason}, c.Kept, c.NoPool, c.Refused)
	for _, o := range c.Operator {
		texts = append(texts, o.Name)
	}
	return checkTexts("cluster", texts...)
}
