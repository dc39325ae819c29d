package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
)

// A build that was interrupted cannot end, since nobody reads what it says of that. A second signal ends it at once,
// which a shell shows as 130 or 143.
func TestSecondSignalEndsABuildAtOnce(t *testing.T) {
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} { // nohup(1) may have taken others away
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			w := &waiting{t: t, reached: make(chan struct{})}
			w.server(func(http.ResponseWriter, *http.Request) {})
			cmd := exec.Command(program, append([]string{
				"build", "--stall", "1h", "--progress", "none", "--cache-dir", t.TempDir(), "--node-binary", nodeProgram,
				"-o", filepath.Join(t.TempDir(), "out"),
			}, w.args...)...)
			r, pipe, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			defer r.Close()
			cmd.Stderr = pipe
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			<-w.reached
			fill(t, pipe)
			signals := 0
			fixtures.Until(t, func() error { // the next one may come before the first is at work
				if len(ended) > 0 {
					return nil
				}
				signals++
				return errors.Join(cmd.Process.Signal(signal), fmt.Errorf("it goes on after %d signals", signals))
			})
			var exit *exec.ExitError
			if err := <-ended; !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != signal || signals < 2 {
				t.Errorf("got %v after %d signals, want %v after the second", err, signals, signal)
			}
		})
	}
}

// fill makes a pipe take no byte more.
func fill(t *testing.T, pipe *os.File) {
	t.Helper()
	fd := int(pipe.Fd()) // each call makes it wait again
	if err := unix.SetNonblock(fd, true); err != nil {
		t.Fatal(err)
	}
	for size := 64 << 10; size > 0; {
		if _, err := unix.Write(fd, make([]byte, size)); err != nil {
			size /= 2
		}
	}
	if err := unix.SetNonblock(fd, false); err != nil {
		t.Fatal(err)
	}
}
