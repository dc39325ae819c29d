package atomicfile

import (
	"io"
	"os"
)

// sharedBlock is the size of what files can share, in bytes: that of the blocks of XFS and btrfs.
const sharedBlock = 4096

// span is a range of a file, in bytes.
type span struct{ from, to int64 }

// Share makes the whole blocks of a range of size bytes those of src, from an offset there, and reports whether the
// file system could do that. The range is after those of earlier calls, and after all that was written. Write skips
// these blocks, so it has to be called with the bytes that src has there.
func (f *File) Share(src *os.File, from, at, size int64) bool {
	start := (at + sharedBlock - 1) &^ (sharedBlock - 1)
	end := (at + size) &^ (sharedBlock - 1)
	if start >= end {
		return true
	}
	if err := cloneRange(f.File, src, from+start-at, start, end-start); err != nil {
		return false
	}
	f.shared = append(f.shared, span{start, end})
	return true
}

// unshared writes what is not shared of the bytes at an offset.
func (f *File) unshared(p []byte, at int64) (n int, err error) {
	for n < len(p) && err == nil {
		for len(f.shared) > 0 && f.shared[0].to <= at {
			f.shared = f.shared[1:]
		}
		rest, to := p[n:], at+int64(len(p)-n)
		if len(f.shared) > 0 {
			to = min(to, f.shared[0].from)
		}
		var m int
		if to > at {
			m, err = f.File.Write(rest[:to-at])
		} else {
			m = int(min(int64(len(rest)), f.shared[0].to-at))
			_, err = f.Seek(int64(m), io.SeekCurrent)
		}
		n, at = n+m, at+int64(m)
	}
	return n, err
}
