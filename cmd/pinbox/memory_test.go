package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// The memory of a build grows little with the number of images, each of which is in a repository of its own: nothing
// is kept of a repository once its layers are there. A bug was that 2,000 images took 155 MB.
func TestMemoryOfImages(t *testing.T) {
	const few, many, limit = 200, 1200, 18 << 10 // bytes
	registry, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pins := make([]string, many)
	var group errgroup.Group
	group.SetLimit(8)
	for i := range pins {
		group.Go(func() (err error) {
			sizes := []int{10_000 + i}
			for n := range 9 { // 20 images share them
				sizes = append([]int{100 + 9*(i/20) + n}, sizes...)
			}
			pins[i], err = registry.PushStack(t.Context(), fmt.Sprintf("memory/image-%d", i), sizes...)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	cache := t.TempDir()
	for _, what := range []string{"first build", "all in the cache"} {
		peak := func(n int) int64 {
			dir := t.TempDir()
			cmd := exec.Command(program, "build", "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram,
				"--set", write(t, "sets.yaml", sample.SetNamed("many", pins[:n]...)), "-o", filepath.Join(dir, "out"))
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(cache, fmt.Sprint(n)))
			return peakOf(t, cmd)
		}
		of, ofMany := peak(few), peak(many)
		if got := (ofMany - of) / (many - few); got > limit {
			t.Errorf("%s: got %d bytes for each more image, want at most %d", what, got, limit)
		}
	}
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakOf runs a program, and returns its largest resident memory in bytes. That of getrusage(2) is at least the memory
// of the process that starts it.
func peakOf(t *testing.T, cmd *exec.Cmd) (peak int64) {
	t.Helper()
	var output bytes.Buffer
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			if err != nil || peak == 0 {
				t.Fatalf("%s: got a peak of %d bytes, %v\n%s", cmd, peak, err, &output)
			}
			return peak
		case <-time.After(10 * time.Millisecond):
		}
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)) // it may have ended
		if m := highWater.FindSubmatch(status); m != nil {
			kilobytes, err := strconv.ParseInt(string(m[1]), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			peak = kilobytes << 10
		}
	}
}
