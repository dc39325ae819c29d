package ignition_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/runtime/provision"
)

// A MachineConfig has at most 1.5 MiB: the operator does not render a larger one.
func TestSizeOfAMachineConfig(t *testing.T) {
	const limit = 1_572_864
	render := func(size int) ([]byte, error) {
		return ignition.MachineConfig("99-worker-pinbox", "worker", provision.Parts{Files: []provision.File{{
			Path: "/etc/pinbox/node.json", Mode: 0o644, Content: bytes.Repeat([]byte("a"), size),
		}}})
	}
	size := limit - 64<<10 // leaves room for the rest of the object
	object, err := render(size)
	if err != nil {
		t.Fatalf("with a file of %d bytes: %v", size, err)
	}
	size += limit - len(object)
	if object, err = render(size); err != nil || len(object) != limit {
		t.Errorf("got %d bytes and %v, want %d", len(object), err, limit)
	}
	_, err = render(size + 1)
	if want := fmt.Sprintf("%d bytes, and a MachineConfig at most %d", limit+1, limit); !errors.Is(err,
		ignition.ErrButane) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v with %q", err, ignition.ErrButane, want)
	}
}
