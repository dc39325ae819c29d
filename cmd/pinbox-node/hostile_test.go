package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
)

const (
	// maxMemory is how much memory an attach may use, in KiB, whatever the medium.
	maxMemory = 128 << 10
	// maxTime is how long it may take, in seconds of a processor.
	maxTime = 20 * time.Second
	// huge is the size of a hostile document, in bytes: more than any that is in memory as a whole may
	// have.
	huge = 20 << 20
)

// text is a document: head, then unit as often as fits into size bytes, then tail.
type text struct {
	head, unit, tail string
	size             int
}

func (d text) write(w io.Writer) error {
	out := bufio.NewWriter(w)
	_, err := out.WriteString(d.head)
	for n := 0; n < d.size && err == nil; n += len(d.unit) {
		_, err = out.WriteString(d.unit)
	}
	if err == nil {
		_, err = out.WriteString(d.tail)
	}
	return errors.Join(err, out.Flush())
}

// list is a list that is the last field of an object.
func list(head, unit, tail string) text {
	return text{head + "[", unit + ",", unit + "]" + tail, huge}
}

// hostileStore writes the folder of a delta whose store has these documents, beside those of an empty
// store. The sums are right: whoever makes a medium can compute them.
func hostileStore(t *testing.T, documents map[string]text) string {
	t.Helper()
	dir := t.TempDir()
	hostileTree(t, filepath.Join(dir, "tree"), documents)
	return packTree(t, dir)
}

// hostileTree writes the documents of a store.
func hostileTree(t *testing.T, tree string, documents map[string]text) {
	t.Helper()
	all := map[string]text{
		"overlay-images/images.json": {head: "[]"}, "overlay-images/images.lock": {head: "i"},
		"overlay-layers/layers.json": {head: "[]"}, "overlay-layers/layers.lock": {head: "l"},
		"pinbox/pinbox.lock.json": {head: emptyLock + "[]}"},
	}
	maps.Copy(all, documents)
	for name, document := range all {
		name = filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(document.write(f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// packTree makes the store of the folder tree, and its sums.
func packTree(t *testing.T, dir string) string {
	t.Helper()
	tree, file := filepath.Join(dir, "tree"), filepath.Join(dir, "delta.squashfs")
	fixtures.Run(t, "mksquashfs", tree, file, "-quiet", "-no-progress", "-Xcompression-level", "1")
	if err := os.RemoveAll(tree); err != nil {
		t.Fatal(err)
	}
	writeSums(t, dir, "delta.squashfs")
	return dir
}

// emptyLock is a lock up to the list of its images.
var emptyLock = `{"version":1,"platform":"linux/` + goruntime.GOARCH + `","sets":[],"images":`

func writeSums(t *testing.T, dir, file string) {
	t.Helper()
	sum := strings.Fields(fixtures.Run(t, "sha256sum", filepath.Join(dir, file)))[0]
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sum+"  "+file+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

// links makes n symbolic links in a folder. mksquashfs takes minutes for as many pseudo files.
func links(t *testing.T, folder string, n int) {
	t.Helper()
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if err := os.Symlink("x", filepath.Join(folder, strconv.Itoa(i))); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever a store has in it: attach ends soon, with an error, needs little memory, and leaves
// nothing behind.
func TestHostileStores(t *testing.T) {
	t.Parallel()
	image := `{"pin":"quay.io/a/b@sha256:` + strings.Repeat("0", 64) + `",`
	for name, c := range map[string]struct {
		document string
		text     text
	}{
		"layers":              {"overlay-layers/layers.json", list("", "{}", "")},
		"images":              {"overlay-images/images.json", list("", "{}", "")},
		"names of an image":   {"overlay-images/images.json", list(`[{"names":`, `""`, "}]")},
		"flags of a layer":    {"overlay-layers/layers.json", list(`[{"flags":{"a":`, `[]`, "}}]")},
		"owners of a layer":   {"overlay-layers/layers.json", list(`[{"uidset":`, `0`, "}]")},
		"token of the images": {"overlay-images/images.lock", text{unit: "0", size: huge}},
		"a long string":       {"overlay-images/images.json", text{`[{"id":"`, "0", `"}]`, huge}},
		"no end of spaces":    {"overlay-images/images.json", text{"[", " ", "]", huge}},
		"lock":                {"pinbox/pinbox.lock.json", list(emptyLock, "{}", "}")},
		"lock of numbers":     {"pinbox/pinbox.lock.json", list(emptyLock, "0", "}")},
		"lock of spaces":      {"pinbox/pinbox.lock.json", text{"{", " ", "}", huge}},
		"lock of other things": {
			"pinbox/pinbox.lock.json", list(`{"x":`, "[]", "}"),
		},
		"lock with sets": {
			"pinbox/pinbox.lock.json", list(`{"version":1,"platform":"linux/amd64","sets":`, "{}", "}"),
		},
		"lock with labels": {"pinbox/pinbox.lock.json", text{
			`{"version":1,"platform":"linux/amd64","sets":[{"name":"a","labels":{`, `"a":"",`, `"b":""}}]}`, huge,
		}},
		"lock with layers":    {"pinbox/pinbox.lock.json", list(emptyLock+"["+image+`"layers":`, "{}", "}]}")},
		"lock with numbers":   {"pinbox/pinbox.lock.json", list(emptyLock+"["+image+`"layers":`, "0", "}]}")},
		"lock with tags":      {"pinbox/pinbox.lock.json", list(emptyLock+"["+image+`"tags":`, `""`, "}]}")},
		"lock that is nested": {"pinbox/pinbox.lock.json", list(emptyLock, "[", "}")},
		"delta":               {"pinbox/delta.json", list(`{"version":1,"bases":[],"needs":`, "{}", "}")},
		"delta of numbers":    {"pinbox/delta.json", list(`{"version":1,"bases":[],"needs":`, "0", "}")},
		"delta with bases":    {"pinbox/delta.json", list(`{"version":1,"bases":`, "{}", "}")},
		"lock with a name":    {"pinbox/pinbox.lock.json", text{`{"version":1,"name":"`, "a", `"}`, huge}},
		"set in YAML":         {"pinbox/sets/a.yaml", text{"", "-\n", "", huge}},
		"set in braces":       {"pinbox/sets/a.yaml", text{"{", "a,", "}", huge}},
		"set in JSON":         {"pinbox/sets/a.json", list("", "{}", "")},
		"set of numbers":      {"pinbox/sets/a.json", list("", "0", "")},
		"set of documents":    {"pinbox/sets/a.yaml", text{"", "---\n{}\n", "", huge}},
		"small set in YAML":   {"pinbox/sets/a.yaml", text{"", "-\n", "", 200 << 10}},
		"small set of braces": {"pinbox/sets/a.yaml", text{"{", "a,", "}", 200 << 10}},
		"small set in JSON":   {"pinbox/sets/a.json", text{"[", "0,", "0]", 200 << 10}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attachHostile(t, hostileStore(t, map[string]text{c.document: c.text}))
		})
	}
	for name, folder := range map[string]string{"many files": "", "many sets": "pinbox/sets"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			hostileTree(t, filepath.Join(dir, "tree"), nil)
			links(t, filepath.Join(dir, "tree", folder), 40_000)
			attachHostile(t, packTree(t, dir))
		})
	}
}

// attachHostile attaches a source, which must be refused.
func attachHostile(t *testing.T, source string) {
	t.Helper()
	root := t.TempDir()
	path := func(name string) string { return filepath.Join(root, name) }
	for name, content := range map[string]string{
		crio.StoresPath: string(crio.RenderStores(crio.Slots(), false)), "etc/pinbox/sets.d/.keep": "",
	} {
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path(name)), 0o755), os.WriteFile(path(name), []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	peak, took, code, output := measured(t, fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node"), "attach", source,
		"--set=setsDir="+path("etc/pinbox/sets.d"), "--set=crioDir="+path("etc/crio"), "--set=stateDir="+path("state"),
		"--set=status="+path("status.json"), "--set=socket="+path("crio.sock"), "--wait", "1s", "--set=reserve=0")
	for slot := range 8 { // if it was mounted
		_ = syscall.Unmount(path(fmt.Sprintf("state/stores/%d", slot)), syscall.MNT_DETACH)
	}
	t.Logf("%d KiB, %v, exit code %d: %.300s", peak, took, code, output)
	if code != 3 && code != 4 {
		t.Errorf("got exit code %d, want 3 or 4", code)
	}
	if peak > maxMemory || took > maxTime {
		t.Errorf("got %d KiB and %v, want at most %d KiB and %v", peak, took, maxMemory, maxTime)
	}
	left, err := filepath.Glob(path("state/stores.d/[^.]*"))
	if err != nil || slices.ContainsFunc(left, func(name string) bool { return !strings.HasPrefix(filepath.Base(name), "state.json") }) {
		t.Errorf("got the files %v, %v, want none", left, err)
	}
}

// measureChild is the variable with the file into which the test program writes what its child has used.
const measureChild = "PINBOX_TEST_MEASURE_CHILD"

// measured runs a program, and returns the most memory that it had, in KiB, the time of processors that it took, its
// exit code, and what it printed. The test program runs it a second time, as the parent: until exec(2), a process has
// the memory of its parent, which counts, and this one has much.
func measured(t *testing.T, program string, args ...string) (peak int64, took time.Duration, code int, output string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "usage")
	cmd := exec.Command(self, append([]string{program}, args...)...)
	cmd.Env = append(cmd.Environ(), measureChild+"="+file)
	out, _ := cmd.CombinedOutput() // its state says more
	content, err := os.ReadFile(file)
	var ns int64
	if err == nil {
		_, err = fmt.Sscan(string(content), &peak, &ns)
	}
	if err != nil {
		t.Fatalf("got %v, want what %v has used\n%s", err, cmd, out)
	}
	return peak, time.Duration(ns), cmd.ProcessState.ExitCode(), string(out)
}

// runMeasured runs a program in a process of its own, which cannot take all memory of the machine.
func runMeasured(file string, args []string) (code int) {
	limit := uint64(16 * maxMemory << 10)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err := unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: limit, Max: limit})
	if err == nil {
		_ = cmd.Run() // its state says more
		usage := cmd.ProcessState.SysUsage().(*syscall.Rusage)
		took := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
		err = os.WriteFile(file, fmt.Appendln(nil, usage.Maxrss, took.Nanoseconds()), 0o600)
	}
	if err != nil {
		panic(err)
	}
	return cmd.ProcessState.ExitCode()
}

// Links next to a store lead to a device without an end, or to a pipe.
func TestHostileFolders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"SHA256SUMS", "delta.squashfs.sig", "delta.squashfs"} {
		for to, make := range map[string]func(string) error{
			"/dev/zero": func(name string) error { return os.Symlink("/dev/zero", name) },
			"a pipe":    func(name string) error { return syscall.Mkfifo(name, 0o644) },
		} {
			t.Run(name+" is "+to, func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				if err := make(filepath.Join(dir, name)); err != nil {
					t.Fatal(err)
				}
				if name != "delta.squashfs" {
					if err := os.WriteFile(filepath.Join(dir, "delta.squashfs"), []byte("store"), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				attachHostile(t, dir)
			})
		}
	}
}

// An ISO can have a large root directory, and more volume descriptors than any program writes.
func TestHostileMedia(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ root, descriptors int }{
		"root directory of 60 MB":  {60 << 20, 1},
		"root directory of 4 MiB":  {4 << 20, 1},
		"many volume descriptors":  {2048, 200_000},
		"root directory elsewhere": {-1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "medium.iso")
			if err := os.WriteFile(file, hostileISO(c.root, c.descriptors), 0o644); err != nil {
				t.Fatal(err)
			}
			attachHostile(t, file)
		})
	}
}

// hostileISO returns an ISO whose root directory has so many bytes of the smallest records, and so many
// volume descriptors: ECMA-119, 8.4 and 9.1.
func hostileISO(root, descriptors int) []byte {
	const sector = 2048
	image := make([]byte, (16+descriptors+1)*sector)
	for n := range descriptors {
		d := image[(16+n)*sector:]
		d[0] = 1
		copy(d[1:], "CD001")
		binary.LittleEndian.PutUint16(d[128:], sector)
		d[156] = 34
		binary.LittleEndian.PutUint32(d[158:], uint32(len(image)/sector))
		binary.LittleEndian.PutUint32(d[166:], uint32(root))
	}
	end := image[(16+descriptors)*sector:]
	end[0] = 255
	copy(end[1:], "CD001")
	record := make([]byte, 34)
	record[0] = 34
	for written := 0; written < root; written += sector {
		image = append(image, bytes.Repeat(record, sector/34)...)
		image = append(image, make([]byte, sector%34)...)
	}
	return image
}
