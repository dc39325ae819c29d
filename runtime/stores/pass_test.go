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

// A pass runs while a store is attached, and ends without having seen the new sets: that
// of `firstboot`, say, or of somebody who attaches another. Nobody comes after it.
func TestPassOfAnotherEndsMeanwhile(t *testing.T) {
	s := ship(t, 2)
	s.must("firstboot")
	pass, err := os.OpenFile(s.Path("lib/status.json.lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(pass.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	cmd := s.Pinbox("attach", s.stores[1], "--wait", "20s")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(s.set(),
		s.pins[1][1]); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the sets do not come")
		}
	}
	time.Sleep(500 * time.Millisecond)   // for it to find out that it is not alone; sooner shows nothing
	if err := pass.Close(); err != nil { // which releases
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, said.String())
	}
	s.pinned(1)
}

// set is what stands in the only set.
func (s *site) set() string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Sets(), "worker.yaml"))
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}
