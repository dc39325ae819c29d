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

// A live ISO with a store of 5 GiB, beside cp of base and store.
func BenchmarkApply(b *testing.B) {
	base := fixtures.LiveISO(b, fixtures.LiveISOs["as CoreOS"]...)
	besideCp(b, []string{base}, func(out string, store Addition) error {
		return Apply(b.Context(), base, out, Edit{Ignition: []byte("{}"), Additions: []Addition{store}})
	})
}

// A medium with a store of 5 GiB, beside cp of the store.
func BenchmarkCreate(b *testing.B) {
	besideCp(b, nil, func(out string, store Addition) error {
		return Create(b.Context(), out, MediumLabel, 0o644, time.Unix(0, 0), []Addition{store}, nil)
	})
}

// besideCp makes the image and has cp copy the same bytes, in turns: what else the
// machine does, and memory that the one before has just freed, are for both.
// Either ends with fsync.
func besideCp(b *testing.B, files []string, create func(out string, store Addition) error) {
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
		cold(b, files, out, sides[0]) // the first one pays for memory that nobody has used yet
		for round := range benchRounds {
			for turn := range sides {
				side := (round + turn) % len(sides)
				times[side] = append(times[side], cold(b, files, out, sides[side]))
			}
			b.Logf("cp %.2f s, pinbox %.2f s", times[0][round].Seconds(), times[1][round].Seconds())
		}
	}
	cp, ours := median(times[0]), median(times[1])
	b.ReportMetric(0, "ns/op") // of both together: of no use
	b.ReportMetric(cp, "cp-s")
	b.ReportMetric(ours, "pinbox-s")
	b.ReportMetric(cp/ours, "x-of-cp")
}

// onDisk is a folder with that much space, for what /tmp has may be memory.
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

// random is a file that does not compress and has no holes.
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

// cold takes the time in which out is made. None of the files that are read for
// it is in memory, and nothing is on its way to the disk.
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

// median of an even number of times, in seconds.
func median(times []time.Duration) float64 {
	sorted := slices.Sorted(slices.Values(times))
	return (sorted[len(sorted)/2-1] + sorted[len(sorted)/2]).Seconds() / 2
}

// What is added begins with a whole block of the file system, whatever the base
// and what stands before it. So btrfs and XFS share a store's blocks, and making
// the ISO copies nothing.
func TestAdditionsBeginWithBlocks(t *testing.T) {
	images := map[string]func(out string, additions []Addition) error{
		"medium": func(out string, additions []Addition) error {
			return Create(t.Context(), out, MediumLabel, 0o644, time.Unix(0, 0), additions, nil)
		},
	}
	for kind, options := range fixtures.LiveISOs {
		images[kind] = func(out string, additions []Addition) error {
			return Apply(t.Context(), fixtures.LiveISO(t, options...), out, Edit{Additions: additions})
		}
	}
	for kind, create := range images {
		out := filepath.Join(t.TempDir(), "out.iso")
		if err := create(out, []Addition{{"lock.json", 5, strings.NewReader("lock\n")},
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
				t.Errorf("%s: %s at %d, %v", kind, name, file.Offset(), err)
			}
		}
	}
}
