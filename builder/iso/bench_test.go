//go:build linux

package iso

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/fixtures"
)

const (
	benchStore  = 5 << 30
	benchRounds = 4 // even, so that each side begins equally often
)

// BenchmarkApply compares making a live ISO with a store of 5 GiB with cp of base and store.
func BenchmarkApply(b *testing.B) {
	base := fixtures.LiveISO(b, fixtures.LiveISOs["as CoreOS"]...)
	compareWithCp(b, []string{base}, func(out string, store Addition) error {
		return Apply(b.Context(), base, out, Edit{Ignition: []byte("{}"), Additions: []Addition{store}})
	})
}

// BenchmarkCreate compares making a medium with a store of 5 GiB with cp of the store.
func BenchmarkCreate(b *testing.B) {
	compareWithCp(b, nil, func(out string, store Addition) error {
		return Create(b.Context(), out, MediumLabel, 0o644, time.Unix(0, 0), []Addition{store}, nil)
	})
}

// compareWithCp makes the image and copies the same bytes with cp, alternately, so that other load and
// freed memory affect both. Both end with fsync.
func compareWithCp(b *testing.B, files []string, create func(out string, store Addition) error) {
	dir := onDisk(b, 2*benchStore+1<<30)
	f := random(b, filepath.Join(dir, "store"), benchStore)
	files, out := append(files, f.Name()), filepath.Join(dir, "out")
	sides := [...]func(){
		func() {
			fixtures.Run(b, "sh", append([]string{"-ec", `mkdir "$0"; cp "$@" "$0"; sync "$0"/*`, out}, files...)...)
		},
		func() {
			if err := create(out, Addition{"store.squashfs", benchStore, f}); err != nil {
				b.Fatal(err)
			}
		},
	}
	var times [len(sides)][]time.Duration
	for b.Loop() {
		cold(b, files, out, sides[0]) // a first run, since unused memory is slower
		for round := range benchRounds {
			for turn := range sides {
				side := (round + turn) % len(sides)
				times[side] = append(times[side], cold(b, files, out, sides[side]))
			}
			b.Logf("cp %.2f s, pinbox %.2f s", times[0][round].Seconds(), times[1][round].Seconds())
		}
	}
	cp, ours := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op") // it would be the time of both
	b.ReportMetric(cp, "cp-s")
	b.ReportMetric(ours, "pinbox-s")
	b.ReportMetric(cp/ours, "x-of-cp")
}

// onDisk returns a folder with space bytes free. /tmp may be a tmpfs.
func onDisk(b *testing.B, space uint64) string {
	b.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "pinbox-bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		b.Fatal(err)
	}
	if free := s.Bavail * uint64(s.Bsize); free < space {
		b.Fatalf("%s has %d MB free, %d are needed", dir, free>>20, space>>20)
	}
	return dir
}

// random returns a file that does not compress and has no holes.
func random(b *testing.B, path string, size int64) *os.File {
	b.Helper()
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	if _, err := io.CopyN(f, rand.NewChaCha8([32]byte{}), size); err != nil {
		b.Fatal(err)
	}
	return f
}

// cold returns the time that do takes to write out, with its files out of the page cache and all other
// writes synced.
func cold(b *testing.B, files []string, out string, do func()) time.Duration {
	b.Helper()
	unix.Sync()
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		if err := errors.Join(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED), f.Close()); err != nil {
			b.Fatal(err)
		}
	}
	start := time.Now()
	do()
	took := time.Since(start)
	if err := os.RemoveAll(out); err != nil {
		b.Fatal(err)
	}
	return took
}

// median returns the median of an even number of times, in seconds.
func median(times []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]).Seconds() / 2
}

// An added file begins at a block of the file system, whatever the base and the files before it. So btrfs
// and XFS share the blocks of a store, and making the ISO copies nothing.
func TestAdditionsBeginAtBlocks(t *testing.T) {
	images := map[string]func(t *testing.T, out string, additions []Addition) error{
		"medium": func(t *testing.T, out string, additions []Addition) error {
			return Create(t.Context(), out, MediumLabel, 0o644, time.Unix(0, 0), additions, nil)
		},
	}
	for kind, options := range fixtures.LiveISOs {
		images[kind] = func(t *testing.T, out string, additions []Addition) error {
			return Apply(t.Context(), fixtures.LiveISO(t, options...), out, Edit{Additions: additions})
		}
	}
	for kind, create := range images {
		t.Run(kind, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "out.iso")
			if err := create(t, out, []Addition{{"lock.json", 5, strings.NewReader("lock\n")},
				addition(sparse(t, 1<<20))}); err != nil {
				t.Fatal(err)
			}
			i, f, err := OpenFile(out)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for _, name := range []string{"pinbox/lock.json", "pinbox/store.squashfs"} {
				if file, err := i.Find(name); err != nil || file.Offset()%4096 != 0 {
					t.Errorf("got %s at %d, %v; want a multiple of 4096", name, file.Offset(), err)
				}
			}
		})
	}
}
