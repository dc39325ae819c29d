package runtime

import (
	"fmt"
	"time"
)

// ClusterStatus is what a node knows of the sets of its cluster.
type ClusterStatus struct {
	// State is current, unreachable or notServed: package cluster.
	State string `json:"state"`
	// Since is when the state began, and Reason why it is another than current.
	Since  time.Time `json:"since"`
	Reason string    `json:"reason,omitempty"`
	// Kept are sets that the cluster's API has lost, or has in an older generation, though nobody has deleted or changed
	// them.
	Kept []string `json:"kept,omitempty"`
	// NoPool are sets that count for no node: on OpenShift, those without a role label.
	NoPool []string `json:"noPool,omitempty"`
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
	return checkTexts("cluster", append(append([]string{c.State, c.Reason}, c.Kept...), c.NoPool...)...)
}
