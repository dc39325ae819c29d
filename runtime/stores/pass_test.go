package stores_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
)

// While a store is attached, another process makes a pass that does not read the new sets. The
// attach then makes another pass.
func TestAttachDuringAnotherPass(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 2)
	s.mustRun("firstboot")
	pass, err := os.OpenFile(s.Path("lib/locks/status.json.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(pass.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := s.Pinbox("attach", s.stores[1], "--wait", "10m")
	output, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := func() string {
		content, err := os.ReadFile(output.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	fixtures.Until(t, func() error {
		if !strings.Contains(s.setText(), s.pins[1][1]) || !strings.Contains(said(), "another pinbox-node is running; waiting\n") {
			return fmt.Errorf("got the sets %s and the output %q, want the new sets, and attach waiting for the pass", s.setText(), said())
		}
		return nil
	})
	if err := pass.Close(); err != nil { // which releases
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("attach: got %v, want no error\n%s", err, said())
	}
	s.wantPinned(1)
}

// setText is the text of the only set.
func (s *testSystem) setText() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Sets(), "worker.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
