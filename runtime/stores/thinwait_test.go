package stores_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// While the store of a thin delta is put together, which may take minutes, the node goes on: a pass applies sets that
// were changed, the status is there, CRI-O runs containers, and may be started again. What changes the stores waits.
func TestNodeGoesOnWhileAStoreIsPutTogether(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	delta := s.thin[1]
	s.mustRun("firstboot")
	resume := s.stopWhilePuttingTogether(delta)

	if out := s.Do("status").Out; !strings.Contains(out, "is being put together") {
		t.Errorf("got %s, want that a store is being put together", out)
	}
	set := sample.SetNamed("worker", s.pins[0][:2]...)
	if err := os.WriteFile(s.Sets()+"/worker.yaml", set, 0o644); err != nil {
		t.Fatal(err)
	}
	s.mustRun("firstboot")
	if out := s.Do("status").Out; !strings.Contains(out, "all 2 images of 1 sets are pinned") {
		t.Errorf("got %s, want a set of 2 images", out)
	}
	// After SIGTERM, CRI-O waits for its clients to close their connections, and the stopped attach may have one.
	s.Stop(syscall.SIGKILL)
	s.wantExit(7, "another pinbox-node is changing the stores", "mount", "--wait", "0s") // they are mounted
	s.Start()
	s.stopContainer(s.startContainer(s.pins[0][1]))
	for _, command := range [][]string{{"attach", delta}, {"rollback"}} {
		s.wantExit(7, "another pinbox-node is changing the stores", command[0], append(command[1:], "--wait", "0s")...)
	}

	if err := resume(); err != nil {
		t.Fatalf("attach: got %v, want no error", err)
	}
	s.wantRelease(1)
	s.wantStore(delta)
}

// stopWhilePuttingTogether starts to attach a thin delta, and stops the process while it puts the store together. The
// process goes on, and its result is returned, when resume is called.
func (s *thinSystem) stopWhilePuttingTogether(delta string) (resume func() error) {
	s.t.Helper()
	for range 10 {
		var output bytes.Buffer
		cmd := s.Pinbox("attach", delta)
		cmd.Stdout, cmd.Stderr = &output, &output
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		fixtures.Until(s.t, func() error {
			if len(ended) == 0 && !s.puttingTogether() {
				return errors.New("the store is not being put together")
			}
			return nil
		})
		if len(ended) == 0 && cmd.Process.Signal(syscall.SIGSTOP) == nil && s.puttingTogether() {
			return func() error {
				if err := errors.Join(cmd.Process.Signal(syscall.SIGCONT), <-ended); err != nil {
					return fmt.Errorf("%w: %s", err, output.String())
				}
				return nil
			}
		}
		_ = cmd.Process.Signal(syscall.SIGCONT) // it was too fast, and may have ended
		if err := <-ended; err != nil {
			s.t.Fatalf("attach: got %v, want no error\n%s", err, output.String())
		}
		s.mustRun("rollback")
		s.mustRun("detach")
	}
	s.t.Fatal("attach was too fast ten times")
	return nil
}

// puttingTogether reports whether a store is put together: that of its process says so.
func (s *thinSystem) puttingTogether() bool {
	_, err := os.Stat(s.Path("lib/attach.json"))
	return err == nil
}
