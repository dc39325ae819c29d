package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/wanted"
)

// wantedFile records the images that pods wanted and the node did not have.
func (n *Node) wantedFile() string { return filepath.Join(n.conf.StateDir, "wanted.json") }

// readWanted returns these images, with what was logged since the last pass. A log that cannot be read says nothing: a
// machine without the journal has no other, and pods start without it.
func (m *machine) readWanted(ctx context.Context) []wanted.Image {
	if m.wanted.Version == 0 {
		m.wanted = wanted.Load(m.node.wantedFile(), time.Now())
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if log := m.node.conf.CRIOLog; log != "" {
		_ = m.wanted.ReadFile(log)
	} else {
		units := []string{crio.Unit}
		for _, unit := range kubeletUnits {
			units = append(units, string(unit))
		}
		_ = m.wanted.ReadJournal(ctx, units...)
	}
	return m.wanted.Images
}

// saveWanted records the images of a status, which the node has still not got. No pass fails since it cannot: the
// status and the logs have them, too. On a node of the Machine Config Operator nothing is written.
func (m *machine) saveWanted(s runtime.Status) {
	m.wanted.Images = s.Wanted
	if s.Owner != runtime.MCO {
		_ = m.wanted.Save(m.node.wantedFile())
	}
}
