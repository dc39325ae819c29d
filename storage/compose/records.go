package compose

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"path"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// records are layers.json or images.json while it grows, in a file without a name: that of 100,000 layers has 60 MB.
type records struct {
	file *os.File
	out  *bufio.Writer
	enc  *layout.RecordEncoder
}

func newRecords(tmp string) (*records, error) {
	file, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return nil, err
	}
	out := bufio.NewWriter(file)
	return &records{file, out, layout.NewRecordEncoder(out)}, nil
}

func (r *records) add(record any) error { return r.enc.Add(record) }

func (r *records) close() { _ = r.file.Close() } // it is temporary

// writeTo writes the file and its lock file. Without lock files, a store on a read-only file system looks empty, or
// listing images fails; if the lock files of two stores are equal, CRI-O does not notice that one was mounted in place
// of the other.
func (r *records) writeTo(s *Store, dir *squashfs.Inode, file, lock string) error {
	token, err := r.enc.Close()
	if err != nil {
		return err
	}
	if err := r.out.Flush(); err != nil {
		return err
	}
	if _, err := r.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := s.file(dir, path.Base(file), 0o600, r.file); err != nil {
		return err
	}
	r.close()
	return s.file(dir, path.Base(lock), 0o644, bytes.NewReader(token))
}
