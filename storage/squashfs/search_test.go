package squashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// To find the files of many large directories, one of each in turn, reads as much for each of many files as for each of
// few: a bug was that each directory was listed again, as a whole, for each file. mksquashfs writes such an index, too.
func TestFilesOfManyDirectoriesInTurn(t *testing.T) {
	const dirs = 12
	read := func(files int) int64 {
		image, err := os.ReadFile(image(t, squashfs.Options{}, func(_ *squashfs.Packer, root *squashfs.Inode) {
			for d := range dirs {
				dir := squashfs.NewDir(0o755, 0, 0, 1)
				for f := range files {
					dir.Add(fmt.Sprintf("file-%06d", f), &squashfs.Inode{Mode: unix.S_IFREG | 0o644})
				}
				root.Set(fmt.Sprint(d), dir)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		counter := &countingReader{Reader: bytes.NewReader(image)}
		r, err := squashfs.OpenImage(counter, int64(len(image)))
		if err != nil {
			t.Fatal(err)
		}
		for f := range files {
			for d := range dirs {
				name := fmt.Sprintf("%d/file-%06d", d, f)
				if _, err := r.Lstat(name); err != nil {
					t.Fatal(err)
				}
				if _, err := r.Lstat(name + "-"); !errors.Is(err, fs.ErrNotExist) {
					t.Fatalf("%s-: got %v, want %v", name, err, fs.ErrNotExist)
				}
			}
		}
		return counter.n / int64(files*dirs)
	}
	if few, many := read(500), read(2000); many > 2*few {
		t.Errorf("got %d bytes for each of 2,000 files of a directory, and %d for each of 500", many, few)
	}
}

type countingReader struct {
	*bytes.Reader
	n int64
}

func (c *countingReader) ReadAt(p []byte, at int64) (int, error) {
	n, err := c.Reader.ReadAt(p, at)
	c.n += int64(n)
	return n, err
}

// To read the index of a pack whose files have many names takes time that grows with their number: a bug was that for
// each name all earlier ones were compared. 40,000 links took 12 seconds.
func TestManyHardLinksOfAPack(t *testing.T) {
	indexOf := func(links int) []byte {
		index, err := squashfs.IndexOf(pack(t, squashfs.Options{}, func(p *squashfs.Packer, root *squashfs.Inode) {
			target := file(t, p, bytes.NewReader([]byte("content")))
			root.Set("a", target)
			for i := range links {
				root.Link(fmt.Sprintf("link-%06d", i), target)
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		return index
	}
	few, many := indexOf(5_000), indexOf(80_000)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	least := func(index []byte) time.Duration {
		best := time.Duration(1<<63 - 1)
		for range 3 {
			before := threadTime(t)
			squashfs.DecodeIndex(index)
			best = min(best, threadTime(t)-before)
		}
		return best
	}
	const tick = 5 * time.Millisecond                         // the kernel may count CPU time in these
	if f, m := least(few), least(many); m > 64*max(f, tick) { // 16 times the links; the square would be 256
		t.Errorf("got %v for 80,000 links, and %v for 5,000", m, f)
	}
}

// threadTime is the CPU time of this thread, which other processes do not change.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
