package cache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/filelock"
)

// partialEncoding is the folder of the blobs that are not fetched completely. They are named by
// their own digests.
const partialEncoding = "partial-blobs"

// Partial is the part of a blob that was fetched so far. It lets the next process continue where a
// killed one stopped. Its content cannot be verified: the digest is for the complete blob.
type Partial struct {
	*os.File
}

// Partial opens the part of a blob that was fetched, which may be empty. It is nil in the zero
// Cache, and while another process is fetching the blob. The caller ends it with End.
func (c Cache) Partial(blob digest.Digest) (*Partial, error) {
	if c.dir == "" {
		return nil, nil
	}
	path := c.path(partialKey(blob))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Try(f); errors.Is(err, filelock.ErrLocked) {
		return nil, f.Close()
	} else if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if !isAt(f, path) { // the process that held the lock has removed it
		return nil, f.Close()
	}
	return &Partial{File: f}, nil
}

// HasPartial reports whether a part of a blob was fetched.
func (c Cache) HasPartial(blob digest.Digest) bool {
	_, ok := c.Size(partialKey(blob))
	return ok
}

func partialKey(blob digest.Digest) Key { return Key{Digest: blob, Encoding: partialEncoding} }

// PrunePartials removes all partial blobs that no process is fetching.
func (c Cache) PrunePartials() error {
	return c.walk(func(encoding, name string, _ fs.FileInfo) error {
		if encoding != partialEncoding {
			return nil
		}
		return removeUnused(filepath.Join(c.dir, "layers", encoding, name))
	})
}

// Size returns how many bytes were fetched.
func (p *Partial) Size() (int64, error) {
	fi, err := p.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// End closes the file. It removes the file unless keep is set and the file has content.
func (p *Partial) End(keep bool) (err error) {
	if size, failed := p.Size(); !keep || failed == nil && size == 0 {
		if err = os.Remove(p.Name()); errors.Is(err, os.ErrNotExist) {
			err = nil // another process has pruned it
		}
	}
	return errors.Join(err, p.Close())
}
