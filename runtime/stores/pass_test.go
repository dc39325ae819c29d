package stores_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// While a store is attached, another process makes a pass that does not read the new sets. The
// attach then makes another pass.
func TestAttachDuringAnotherPass(t *testing.T) {
	s := newSystem(t, 2)
	s.mustRun("firstboot")
	pass, err := os.OpenFile(s.Path("lib/locks/status.json.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(pass.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := s.Pinbox("attach", s.stores[1], "--wait", "20s")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.setText(),
		s.pins[1][1]); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("got no new sets in 30 s")
		}
	}
	time.Sleep(500 * time.Millisecond)   // attach is now waiting for the lock of passes
	if err := pass.Close(); err != nil { // which releases
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("attach: got %v, want no error\n%s", err, output.String())
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
