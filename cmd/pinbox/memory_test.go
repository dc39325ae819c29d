package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// The memory of a build grows little with the number of images, each of which is in a repository of its own: nothing
// is kept of a repository once its layers are there. A bug was that 2,000 images took 155 MB.
func TestMemoryOfImages(t *testing.T) {
	t.Parallel()
	const few, many, limit = 100, 400, 24 << 10 // bytes
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
		needs := func(n int) int {
			dir := t.TempDir()
			cmd := exec.Command(program, "build", "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram,
				"--set", write(t, "sets.yaml", sample.SetNamed("many", pins[:n]...)), "-o", filepath.Join(dir, "out"))
			cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(cache, fmt.Sprint(n)))
			return liveOf(t, cmd)
		}
		of, ofMany := needs(few), needs(many)
		got := (ofMany - of) / (many - few)
		t.Logf("%s: %d MB, and %d bytes for each more image", what, of>>20, got)
		if got > limit {
			t.Errorf("%s: got %d bytes for each more image, want at most %d", what, got, limit)
		}
	}
}

// collection is a line of the Go runtime about one: what the heap has after it, and the stacks.
var collection = regexp.MustCompile(`(?m)^gc \d+ .*->(\d+) MB, \d+ MB goal, (\d+) MB stacks`)

// liveOf runs a program to its end, and returns the most memory in bytes that was in use after a collection of
// garbage. How much garbage there is until the next one depends on what else the machine does, and so does resident
// memory. On one processor, the layers that are read at the same time do not.
func liveOf(t *testing.T, cmd *exec.Cmd) (most int) {
	t.Helper()
	cmd.Env = append(cmd.Env, "GODEBUG=gctrace=1", "GOGC=", "GOMAXPROCS=1") // the GOGC of pinbox
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, output)
	}
	for _, megabytes := range collection.FindAllSubmatch(output, -1) {
		heap, heapErr := strconv.Atoi(string(megabytes[1]))
		stacks, stacksErr := strconv.Atoi(string(megabytes[2]))
		if err := errors.Join(heapErr, stacksErr); err != nil {
			t.Fatal(err)
		}
		most = max(most, (heap+stacks)<<20)
	}
	if most == 0 {
		t.Fatalf("%s: got no collections, want some\n%s", cmd, output)
	}
	return most
}

// peakOf runs a program to its end, and returns its largest resident memory in bytes. That of getrusage(2) is at
// least the memory of the process that starts it.
func peakOf(t *testing.T, cmd *exec.Cmd) (peak int64, stderr string) {
	t.Helper()
	var output bytes.Buffer
	cmd.Stderr, cmd.Env = &output, append(cmd.Environ(), "GOGC=") // that of pinbox
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	fixtures.Until(t, func() error {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_, line, ok := strings.Cut(string(status), "VmHWM:")
		if err != nil || !ok { // it has ended
			return err
		}
		if _, err := fmt.Sscan(line, &peak); err != nil {
			t.Fatal(err)
		}
		return fmt.Errorf("%s runs", cmd)
	})
	_ = cmd.Wait() // the caller checks its exit code
	if peak == 0 {
		t.Fatalf("%s: got no peak of its memory\n%s", cmd, &output)
	}
	return peak << 10, output.String()
}
