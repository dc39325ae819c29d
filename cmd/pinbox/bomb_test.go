package main

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// bombMemory is the limit for a build of any layer, in bytes.
const bombMemory = 512 << 20

// Whatever a layer is, a build ends soon and takes little memory, and its message names the image, the
// layer, the entry and the flag that raises the limit.
func TestLayersThatAreBombs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		layers []v1.Layer
		says   []string
	}{
		"a million folders without entries": {
			[]v1.Layer{manyFolders(t, 1_000_000, 1000)}, []string{"too many files", "--max-layer-files", `"a`},
		},
		"100 TB of zeros": {
			[]v1.Layer{hole(t, "huge", 100e12)}, []string{"too large", "--max-layer-size", `"huge"`},
		},
		"chains of links": {
			[]v1.Layer{linkChains(t)}, []string{"too many files", "--max-layer-files", `/entry`},
		},
		"attributes": {
			[]v1.Layer{manyAttributes(t)}, []string{"too many files", "--max-layer-files", `"entry`},
		},
		"window of 512 MiB": {
			[]v1.Layer{zstdBomb(t, 512<<20, 1<<10)}, []string{"too much memory", "window", "layer sha256:"},
		},
		"windows of 128 MiB": {
			[]v1.Layer{zstdBomb(t, 128<<20, 1<<10), zstdBomb(t, 128<<20, 2<<10), zstdBomb(t, 128<<20, 3<<10)},
			[]string{"diffID"},
		},
	} {
		t.Run(name, func(t *testing.T) { buildBomb(t, "squashfs", test.layers, test.says) })
	}
}

// The limits hold for a folder too, which the library writes: it would write a hole as 100 TB, and all folders.
func TestBombsInAFolder(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	for name, test := range map[string]struct {
		layer v1.Layer
		says  []string
	}{
		"folders":         {manyFolders(t, 2_100, 50), []string{"too many files: more than 2000", "--max-layer-files", `"a`}},
		"100 TB of zeros": {hole(t, "huge", 100e12), []string{"too large", "--max-layer-size", `"huge"`}},
		"window":          {zstdBomb(t, 512<<20, 1<<10), []string{"too much memory", "window", "layer sha256:"}},
	} {
		t.Run(name, func(t *testing.T) {
			buildBomb(t, "dir", []v1.Layer{test.layer}, test.says, "--max-layer-files", "2000")
		})
	}
}

// A layer with as many files as it may have is built within the same memory.
func TestLayerWithinItsLimits(t *testing.T) {
	t.Parallel()
	buildBomb(t, "squashfs", []v1.Layer{manyFolders(t, 498_000, 1000)}, nil)
}

func buildBomb(t *testing.T, format string, layers []v1.Layer, says []string, flags ...string) {
	t.Helper()
	r := serve(t, nil)
	pin := push(t, r, image(t, "amd64", layers...))
	cmd := exec.CommandContext(t.Context(), fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), append([]string{"build",
		"--no-cache", "-c", write(t, "appliance.yaml", fmt.Appendf(nil, "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\n"+
			"spec:\n  sources:\n  - images: ['%s']\n  store: {format: %s}\n", pin, format)), "--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", filepath.Join(t.TempDir(), "out")}, flags...)...)
	memory, stderr := peakOf(t, cmd)
	took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%d MB, %v", memory>>20, took)
	if memory > bombMemory || took > 30*time.Second { // of CPU time: it does not depend on what else the machine does
		t.Errorf("got %d MB and %v of CPU time, want %d MB and 30s at most", memory>>20, took, bombMemory>>20)
	}
	want := fault.Input
	switch {
	case says == nil:
		want = fault.OK
	case says[0] == "diffID":
		want = fault.Damaged
	}
	if got := cmd.ProcessState.ExitCode(); got != want {
		t.Errorf("got exit code %d, want %d\n%s", got, want, stderr)
	}
	if says != nil {
		says = append(says, pin)
	}
	for _, text := range says {
		if !strings.Contains(stderr, text) {
			t.Errorf("got message %q, want it to contain %q", stderr, text)
		}
	}
}

// manyFolders is a layer of entries whose folders have no entries of their own.
func manyFolders(t *testing.T, folders, depth int) v1.Layer {
	t.Helper()
	var entries []sample.Entry
	for n := range folders / depth {
		entries = append(entries, sample.File(fmt.Sprintf("a%d/%sf", n, strings.Repeat("d/", depth-1)), ""))
	}
	return layer(t, entries...)
}

// hole is a layer of one file, a hole, in the old format of GNU tar.
func hole(t *testing.T, name string, size int64) v1.Layer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: name, Format: tar.FormatGNU}), w.Close()); err != nil {
		t.Fatal(err)
	}
	header := b.Bytes()[:512]
	header[156] = tar.TypeGNUSparse
	number := func(field []byte) { // base-256
		binary.BigEndian.PutUint64(field[4:12], uint64(size))
		field[0] = 0x80
	}
	number(header[386:]) // the map: no data at the end
	copy(header[398:], "00000000000\x00")
	number(header[483:]) // the size with holes
	sum := int(8 * ' ')
	for n, c := range header {
		if n < 148 || n >= 156 {
			sum += int(c)
		}
	}
	copy(header[148:], fmt.Sprintf("%06o\x00 ", sum))
	l, err := sample.NewLayer(b.Bytes(), types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// linkChains is a layer of entries whose folder is found through 200 symbolic links of 2000 steps.
func linkChains(t *testing.T) v1.Layer {
	t.Helper()
	entries := []sample.Entry{sample.Dir("d")}
	target := "d"
	for n := range 200 {
		name := fmt.Sprintf("l%d", n)
		entries = append(entries, sample.Symlink(name, strings.Repeat("d/../", 800)+target))
		target = name
	}
	for n := range 2000 {
		entries = append(entries, sample.File(fmt.Sprintf("%s/entry%d", target, n), ""))
	}
	return layer(t, entries...)
}

// manyAttributes is a layer of files with 600 KB of attributes each.
func manyAttributes(t *testing.T) v1.Layer {
	t.Helper()
	records := map[string]string{}
	for n := range 10 {
		records[fmt.Sprintf("SCHILY.xattr.user.%d", n)] = strings.Repeat("x", 60<<10)
	}
	var entries []sample.Entry
	for n := range 200 {
		e := sample.File(fmt.Sprintf("entry%d", n), "")
		e.PAXRecords = records
		entries = append(entries, e)
	}
	return layer(t, entries...)
}

// zstdBomb is a layer whose blob has a frame with a window, and blocks of 128 KiB of zeros.
func zstdBomb(t *testing.T, window, blocks int) v1.Layer {
	t.Helper()
	exponent := 0
	for 1<<(10+exponent) < window {
		exponent++
	}
	blob := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(exponent << 3)} // RFC 8878, section 3.1.1
	for n := range blocks {
		header := uint32(128<<10)<<3 | 1<<1 // a run
		if n == blocks-1 {
			header |= 1
		}
		blob = append(append(blob, binary.LittleEndian.AppendUint32(nil, header)[:3]...), 0)
	}
	l, err := sample.NewLayer([]byte(fmt.Sprint(blocks)), types.OCILayerZStd)
	if err != nil {
		t.Fatal(err)
	}
	return l.WithBlob(blob)
}

// The first signal ends a build, also while it reads a hole.
func TestHolesCanBeInterrupted(t *testing.T) {
	t.Parallel()
	r := serve(t, nil)
	pin := push(t, r, image(t, "amd64", hole(t, "huge", 100e12)))
	out := filepath.Join(t.TempDir(), "out")
	cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), "build", "--no-cache",
		"--set", write(t, "sets.yaml", sample.Set("worker", pin)), "--insecure-registry=127.0.0.1", "--max-layer-size", "200TiB",
		"--node-binary", nodeProgram, "-o", out)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	for text := ""; !strings.Contains(text, "read layers"); {
		b := make([]byte, 100)
		n, err := stderr.Read(b)
		if err != nil {
			t.Fatalf("got %q, %v, want a build that reads layers", text, err)
		}
		text += string(b[:n])
	}
	fixtures.Until(t, func() error { // until it reads the hole: that takes a core, and all before it a fraction of a second
		if ticks := cpuTicks(t, cmd.Process.Pid); ticks < 100 {
			return fmt.Errorf("got %d ticks of CPU time, want 100", ticks)
		}
		return nil
	})
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // its exit code is checked
	if got := cmd.ProcessState.ExitCode(); got != fault.Interrupted {
		t.Errorf("got exit code %d, want %d", got, fault.Interrupted)
	}
}

// cpuTicks is the CPU time of a process, in hundredths of a second.
func cpuTicks(t *testing.T, pid int) int {
	t.Helper()
	stat := string(mustRead(t, fmt.Sprintf("/proc/%d/stat", pid)))
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // from the third one, proc_pid_stat(5)
	user, err := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	return user + system
}
