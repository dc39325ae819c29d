package iso

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
)

// sparse returns a sparse file with a mark at each of marks(size).
func sparse(t *testing.T, size int64) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	for _, at := range marks(size) {
		if _, err := f.WriteAt(fmt.Appendf(nil, "mark %d", at), at); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// marks returns the offsets that are checked: both ends of the file, and the borders of extents.
func marks(size int64) []int64 {
	all := []int64{0, size - 30}
	for border := int64(maxExtent); border < size-100; border += maxExtent {
		all = append(all, border-20, border)
	}
	return all
}

func addition(f *os.File) Addition {
	fi, _ := f.Stat()
	return Addition{"store.squashfs", fi.Size(), f}
}

func digest(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// isoinfo and xorriso list the store with its size and offset, in every directory tree that the base has.
// The files of the base do not move.
func TestStoreInEveryTree(t *testing.T) {
	for kind, args := range fixtures.LiveISOs {
		for _, size := range []int64{1 << 20, 3900 << 20, 4 << 30, 4100 << 20, 9 << 30} {
			t.Run(fmt.Sprintf("%s, %d MiB", kind, size>>20), func(t *testing.T) {
				b := fixtures.LiveISO(t, args...)
				out := filepath.Join(t.TempDir(), "out.iso")
				store := sparse(t, size)
				e := Edit{Ignition: []byte(`{"ignition":{"version":"3.4.0"}}`), Kargs: KargsEdit{Append: []string{"quiet"}},
					Additions: []Addition{{"lock.json", 5, strings.NewReader("lock\n")}, addition(store)}}
				if err := Apply(t.Context(), b, out, e); err != nil {
					t.Fatal(err)
				}
				checkTrees(t, out, size, args)
				checkBase(t, b, out)
				again := filepath.Join(t.TempDir(), "base.iso")
				if err := restore(out, again); err != nil {
					t.Fatal(err)
				}
				if digest(t, again) != digest(t, b) {
					t.Error("reset: got another image, want the base")
				}
				if err := os.Remove(out); err != nil { // gigabytes, if only of holes
					t.Fatal(err)
				}
			})
		}
	}
}

func checkTrees(t *testing.T, out string, size int64, args []string) {
	t.Helper()
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	i, err := Open(f, fi.Size())
	if err != nil {
		t.Fatal(err)
	}
	store, err := i.Find("pinbox/store.squashfs")
	if err != nil || store.Size != size {
		t.Fatalf("got %+v, %v; want a store of %d bytes", store, err, size)
	}
	for _, at := range marks(size) {
		got := make([]byte, len(fmt.Sprintf("mark %d", at)))
		if _, err := f.ReadAt(got, store.Offset()+at); err != nil || string(got) != fmt.Sprintf("mark %d", at) {
			t.Errorf("got %q, %v at %d; want its mark", got, err, at)
		}
	}
	if text, err := i.ReadText("pinbox/lock.json"); err != nil || string(text) != "lock\n" {
		t.Errorf("got the lock %q, %v; want %q", text, err, "lock\n")
	}
	// xorriso reads the tree that it prefers.
	listing, err := exec.Command(fixtures.Need(t, "xorriso"), "-indev", out, "-find", "/", "-type", "f", "-exec",
		"report_lba").CombinedOutput()
	if err != nil {
		t.Fatalf("xorriso: got %v, want no error\n%s", err, listing)
	}
	var sum int64
	for _, m := range regexp.MustCompile(
		`(?mi)^File data lba:\s*\d+ ,\s*\d+ ,\s*\d+ ,\s*(\d+) , '/pinbox/store.squashfs'`).FindAllSubmatch(listing, -1) {
		n, _ := strconv.ParseInt(string(m[1]), 10, 64) // digits
		sum = max(sum, n)
	}
	if sum != size {
		t.Errorf("xorriso: got %d bytes, want %d\n%s", sum, size, listing)
	}
	for _, tree := range trees(args) {
		out, err := exec.Command(fixtures.Need(t, "isoinfo"), append(append([]string{"-i", out}, tree...), "-l")...).CombinedOutput()
		if err != nil || !strings.Contains(strings.ToLower(string(out)), "/pinbox/") ||
			!strings.Contains(strings.ToLower(string(out)), "store.squashfs") {
			t.Errorf("isoinfo %v: got %v, want the store in the list\n%s", tree, err, out)
		}
	}
}

// trees returns isoinfo's flags for each directory tree of a LiveISO.
func trees(options []string) [][]string {
	trees := [][]string{{}}
	for _, option := range options {
		switch option {
		case "-rock":
			trees = append(trees, []string{"-R"})
		case "-J":
			trees = append(trees, []string{"-J"})
		}
	}
	return trees
}

// checkBase checks that the output differs from its base only in a few numbers.
func checkBase(t *testing.T, base, out string) {
	t.Helper()
	before, err := os.ReadFile(base)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	after := make([]byte, len(before))
	if _, err := io.ReadFull(f, after); err != nil {
		t.Fatal(err)
	}
	i := open(t, before)
	area, err := i.IgnitionArea()
	if err != nil {
		t.Fatal(err)
	}
	copy(after[area.Offset:area.Offset+area.Length], before[area.Offset:])
	changed := 0
	for n := range before {
		if before[n] != after[n] {
			changed++
		}
	}
	if changed > 400 { // numbers in descriptors and "..", kernel arguments, partition tables
		t.Errorf("got %d changed bytes of the base, want 400 or less", changed)
	}
}

// xorriso finds no fault in either GPT, and the backup GPT is at the end of the output.
func TestPartitionTables(t *testing.T) {
	b := fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...)
	out := filepath.Join(t.TempDir(), "out.iso")
	if err := Apply(t.Context(), b, out, Edit{Additions: []Addition{addition(sparse(t, 5<<20+1))}}); err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(out)
	if err != nil || fi.Size()%grain != 0 {
		t.Errorf("got %v, %v; want a multiple of %d bytes", fi, err, grain)
	}
	for name, image := range map[string]string{"base": b, "output": out} {
		report := fixtures.Run(t, "xorriso", "-indev", image, "-report_system_area", "plain")
		for _, bad := range []string{"GPT CRC", "corrupt", "GPT backup problems"} {
			if strings.Contains(report, bad) {
				t.Errorf("%s: got %q, want none\n%s", name, bad, report)
			}
		}
		m := regexp.MustCompile(`ISO image size/512 :\s*(\d+)`).FindStringSubmatch(report)
		g := regexp.MustCompile(`GPT lba range\s*:\s*(\d+)\s+(\d+)\s+(\d+)`).FindStringSubmatch(report)
		if m == nil || g == nil {
			t.Fatalf("%s: got no sizes from xorriso, want them\n%s", name, report)
		}
		if name == "output" && g[3] != strconv.FormatInt(fi.Size()/block-1, 10) {
			t.Errorf("got the backup GPT at %s, want the last of %d blocks", g[3], fi.Size()/block)
		}
	}
}

// A root directory whose sector is full moves.
func TestFullRootDirectory(t *testing.T) {
	dir := t.TempDir()
	for n := range 200 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("f%03d-with-a-name-of-some-length", n)), []byte("x"),
			0o644); err != nil {
			t.Fatal(err)
		}
	}
	b := filepath.Join(t.TempDir(), "base.iso")
	fixtures.Run(t, "xorriso", "-as", "mkisofs", "-quiet", "-volid", "test", "-rock", "-J", "-joliet-long", "-o", b, dir)
	out := filepath.Join(t.TempDir(), "out.iso")
	if err := Apply(t.Context(), b, out, Edit{Additions: []Addition{addition(sparse(t, 3000))}}); err != nil {
		t.Fatal(err)
	}
	for _, tree := range []string{"-R", "-J"} {
		listing := fixtures.Run(t, "isoinfo", "-i", out, tree, "-f")
		if n := strings.Count(listing, "-with-a-name"); n != 200 || !strings.Contains(listing, "/pinbox/store.squashfs") {
			t.Errorf("isoinfo %s: got %d files, want 200 and the store\n%s", tree, n, listing)
		}
	}
}

// The kernel mounts the output and reads the size of the store.
func TestKernelReadsTheStore(t *testing.T) {
	fixtures.NeedRoot(t)
	if filesystems, _ := os.ReadFile("/proc/filesystems"); !bytes.Contains(filesystems, []byte("iso9660")) {
		t.Log("this kernel has no iso9660; the boot test's has")
		return
	}
	out := filepath.Join(t.TempDir(), "out.iso")
	if err := Apply(t.Context(), fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...), out,
		Edit{Additions: []Addition{addition(sparse(t, 5<<30))}}); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	fixtures.Run(t, "mount", "-o", "loop,ro", out, dir)
	defer fixtures.Run(t, "umount", dir)
	if fi, err := os.Stat(filepath.Join(dir, "pinbox/store.squashfs")); err != nil || fi.Size() != 5<<30 {
		t.Errorf("got %v, %v; want a store of 5 GiB", fi, err)
	}
}

func TestEqualInputEqualBytes(t *testing.T) {
	b, store := fixtures.LiveISO(t, fixtures.LiveISOs["as CoreOS"]...), sparse(t, 2<<20)
	var digests []string
	for range 2 {
		out := filepath.Join(t.TempDir(), "out.iso")
		if err := Apply(t.Context(), b, out,
			Edit{Ignition: []byte("{}"), Additions: []Addition{addition(store)}}); err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest(t, out))
	}
	if digests[0] != digests[1] {
		t.Errorf("got the digests %q, want equal ones", digests)
	}
}

func TestEditsThatAreRefused(t *testing.T) {
	b := fixtures.LiveISO(t, fixtures.LiveISOs["Rock Ridge"]...)
	dir := t.TempDir()
	out := filepath.Join(dir, "out.iso")
	for name, test := range map[string]struct {
		do   func() error
		want error
	}{
		"onto itself":     {func() error { return Apply(t.Context(), b, b, Edit{}) }, ErrSameFile},
		"reset of a base": {func() error { return restore(b, out) }, ErrNotEdited},
		"a store cut short": {func() error {
			return Apply(t.Context(), b, out, Edit{Additions: []Addition{{"a", 10, strings.NewReader("x")}}})
		}, io.EOF},
		"a config too large": {func() error {
			return Apply(t.Context(), b, out, Edit{
				Ignition: []byte(digest(t, b) + strings.Repeat(digest(t, b)[1:], 3) + noise(200_000)),
			})
		}, ErrTooLarge},
		"no such folder": {
			func() error { return Apply(t.Context(), b, filepath.Join(dir, "no/out.iso"), Edit{}) }, os.ErrNotExist,
		},
		"too large for it": {func() error {
			return Apply(t.Context(), b, out, Edit{Additions: []Addition{{"a", 9 << 40, strings.NewReader("")}}})
		}, ErrTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.do(); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
		t.Errorf("got the files %v, %v; want none", entries, err)
	}
}

// An ISO of pinbox as a base gives, byte for byte, what its own base gives.
func TestOwnISOAsBase(t *testing.T) {
	for name, options := range fixtures.LiveISOs {
		t.Run(name, func(t *testing.T) {
			dir, base := t.TempDir(), fixtures.LiveISO(t, options...)
			edited := filepath.Join(dir, "edited.iso")
			first := Edit{
				Ignition: []byte(`{"first":1}`), Kargs: KargsEdit{Append: []string{"quiet"}},
				Additions: []Addition{addition(sparse(t, 3<<20))},
			}
			if err := Apply(t.Context(), base, edited, first); err != nil {
				t.Fatal(err)
			}
			second := func() Edit {
				return Edit{Ignition: []byte(`{}`), Additions: []Addition{{"lock.json", 5, strings.NewReader("lock\n")}}}
			}
			var digests []string
			for _, from := range []string{base, edited} {
				out := filepath.Join(t.TempDir(), "out.iso")
				if err := Apply(t.Context(), from, out, second()); err != nil {
					t.Fatal(err)
				}
				digests = append(digests, digest(t, out))
			}
			if digests[0] != digests[1] {
				t.Errorf("got %s, want %s", digests[1], digests[0])
			}
			b, err := OpenBase(edited)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			whole, err := io.ReadAll(b.Reader())
			if want, readErr := os.ReadFile(base); err != nil || readErr != nil || !b.Edited || !bytes.Equal(whole, want) {
				t.Errorf("got %d bytes, %v, %v, Edited %t; want the %d of the base", len(whole), err, readErr, b.Edited, len(want))
			}
		})
	}
}

// noise returns text that does not compress.
func noise(size int) string {
	var b bytes.Buffer
	for n := 0; b.Len() < size; n++ {
		sum := sha256.Sum256(fmt.Append(nil, n))
		b.Write(sum[:])
	}
	return b.String()
}

// A medium without an operating system has both trees, and equal inputs give equal bytes.
func TestMedium(t *testing.T) {
	made := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, size := range []int64{1 << 20, 9 << 30} {
		var outs []string
		for range 2 {
			out := filepath.Join(t.TempDir(), "medium.iso")
			if err := Create(t.Context(), out, MediumLabel, 0o644, made, []Addition{
				{"lock.json", 5, strings.NewReader("lock\n")}, addition(sparse(t, size)),
			}, nil); err != nil {
				t.Fatal(err)
			}
			checkTrees(t, out, size, []string{"-rock", "-J"})
			outs = append(outs, out)
			if size > 1<<30 {
				break
			}
		}
		if len(outs) == 2 && digest(t, outs[0]) != digest(t, outs[1]) {
			t.Error("got two different media, want equal ones")
		}
		about := fixtures.Run(t, "isoinfo", "-d", "-i", outs[0])
		for _, want := range []string{
			"Volume id: PINBOX", "Joliet with UCS level 3 found", "Rock Ridge signatures version 1 found",
		} {
			if !strings.Contains(about, want) {
				t.Errorf("isoinfo: got\n%s\nwant %q in it", about, want)
			}
		}
		if report := fixtures.Run(t, "xorriso", "-indev", outs[0], "-toc"); strings.Contains(report, "WARNING") ||
			strings.Contains(report, "FAILURE") {
			t.Errorf("xorriso: got\n%s\nwant no WARNING and no FAILURE", report)
		}
	}
}

// A reset restores real headers.
func TestResetOfRealHeaders(t *testing.T) {
	for _, name := range []string{"embed-areas-2021-09", "embed-areas-2023-03.s390x", "embed-areas-2023-07.x86_64"} {
		t.Run(name, func(t *testing.T) {
			b := filepath.Join(t.TempDir(), "base.iso")
			if err := os.WriteFile(b, fixtures.LiveHeader(t, name), 0o644); err != nil {
				t.Fatal(err)
			}
			edited, again := filepath.Join(t.TempDir(), "edited.iso"), filepath.Join(t.TempDir(), "again.iso")
			if err := Apply(t.Context(), b, edited,
				Edit{Ignition: []byte("{}"), Additions: []Addition{addition(sparse(t, 1<<20))}}); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(edited)
			if err != nil {
				t.Fatal(err)
			}
			if config, err := open(t, content).Ignition(); err != nil || string(config) != "{}" {
				t.Errorf("got the config %q, %v; want {}", config, err)
			}
			if err := restore(edited, again); err != nil || digest(t, again) != digest(t, b) {
				t.Errorf("got another image, %v; want the base", err)
			}
		})
	}
}
