package node

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Status says how the node is, with what the last pass has found out. It changes nothing.
func Status(ctx context.Context, o Options) (runtime.Status, error) {
	o.readOnly = true
	r, end, err := NewReconciler(o)
	if err != nil {
		return runtime.Status{}, err
	}
	defer end()
	return r.Status(ctx, o.complete().busy())
}

// saveStatus writes the status for others to read.
func (o Options) saveStatus(s runtime.Status) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(o.Status), 0o755); err != nil {
		return err
	}
	_, err = atomicfile.WriteVia(o.Status+".new", o.Status, append(content, '\n'), 0o644)
	return err
}

// loadStatus reads the status of the last pass.
func (o Options) loadStatus() (s runtime.Status, err error) {
	file, err := os.Open(o.Status)
	if err != nil {
		return s, err
	}
	defer file.Close()
	return runtime.DecodeStatus(file)
}
