package stores_test

import (
	"bytes"
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
	asked := closed(t, pass.Name()) // by attach, which cannot lock it
	cmd := s.Pinbox("attach", s.stores[1], "--wait", "10m")
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fixtures.Receive(t, "attempt to make a pass", asked)
	if !strings.Contains(s.setText(), s.pins[1][1]) {
		t.Errorf("got the set %s, want that of the release before the pass", s.setText())
	}
	if err := pass.Close(); err != nil { // which releases
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("attach: got %v, want no error\n%s", err, output.String())
	}
	s.wantPinned(1)
}

// closed is closed once a process has opened a file to write, and closed it again.
func closed(t *testing.T, file string) <-chan struct{} {
	t.Helper()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err == nil {
		_, err = unix.InotifyAddWatch(watch, file, unix.IN_CLOSE_WRITE)
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer unix.Close(watch)
		if _, err := unix.Read(watch, make([]byte, 4096)); err != nil {
			t.Error(err)
		}
	}()
	return done
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
