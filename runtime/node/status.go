package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/input"
)

// Status returns the status of the node, with what the last pass has found out. It changes nothing.
func (n *Node) Status(ctx context.Context) (runtime.Status, error) {
	r, end, err := n.reconciler(true)
	if err != nil {
		return runtime.Status{}, err
	}
	defer end()
	busy := filelock.Held(statusFile(n.conf.Status).lock())
	return r.Status(ctx, busy)
}

// statusFile is the path of the status.
type statusFile string

// lock is the path of the lock that a process holds while it makes passes.
func (f statusFile) lock() string {
	return filepath.Join(filepath.Dir(string(f)), "locks", filepath.Base(string(f))+".lock")
}

// publish writes the status and the metrics, for others to read.
func (n *Node) publish(s runtime.Status) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return errors.Join(publishFile(n.conf.Status, append(content, '\n')), publishFile(n.conf.MetricsFile, s.Metrics()))
}

func publishFile(name string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	_, err := atomicfile.Write(name, content, 0o644)
	return err
}

// load reads the status of the last pass.
func (f statusFile) load() (s runtime.Status, err error) {
	file, err := input.Open(string(f)) // a pipe would block
	if err != nil {
		return s, err
	}
	defer file.Close()
	return runtime.DecodeStatus(file)
}
