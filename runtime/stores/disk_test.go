package stores_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// When the disk of a node cannot sync or rename, a command fails with an error that says so, or
// does its work. The next one completes it.
func TestDiskErrors(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	s.mustRun("firstboot")
	s.mustRun("attach", s.stores[1])
	for _, command := range [][]string{{"attach", s.stores[2]}, {"compact"}} {
		failed := 0
		for _, call := range []string{"fsync", "renameat"} {
			for when := 1; when <= 3; when++ {
				cmd := s.Pinbox(command[0], command[1:]...)
				program := slices.IndexFunc(cmd.Args, func(arg string) bool { return strings.HasSuffix(arg, "/pinbox-node") })
				line := slices.Concat(cmd.Args[:program], fixtures.DiskError(t, call, when), cmd.Args[program:])
				strace := exec.Command(line[0], line[1:]...)
				strace.Env = cmd.Env
				text, err := strace.CombinedOutput()
				var exit *exec.ExitError
				if errors.As(err, &exit) {
					failed++
				}
				if err != nil && !strings.Contains(string(text), "input/output error") {
					t.Errorf("%s, %s %d: got %v, want an error of the disk\n%s", command[0], call, when, err, text)
				}
				s.checkConsistency(command)
				s.Do("detach", "2") // or it is not attached
			}
		}
		if failed == 0 {
			t.Errorf("%s: got no failure, want some", command[0])
		}
		s.mustRun(command[0], command[1:]...)
		s.checkConsistency(command)
	}
	s.wantPinned(2)
}
