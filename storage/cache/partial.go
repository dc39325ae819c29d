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

// partialEncoding is where blobs stand that were not fetched to their end, under their own
// digests.
const partialEncoding = "partial-blobs"

// Partial is what was fetched of a blob so far, for the case that this process does
// not come to its end. What stands there is to be verified with the rest.
type Partial struct {
	*os.File
}

// Partial opens what is there of a blob, perhaps nothing. It is nil if nothing is
// kept, or another process is fetching the blob. The caller ends it with End.
func (c Cache) Partial(blob digest.Digest) (*Partial, error) {
	if c.dir == "" {
		return nil, nil
	}
	path := c.path(Key{Digest: blob, Encoding: partialEncoding})
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
	if !stands(f, path) { // the one before had no more use for it
		return nil, f.Close()
	}
	return &Partial{File: f}, nil
}

// PrunePartials removes all that no process is fetching.
func (c Cache) PrunePartials() error {
	return c.walk(func(encoding, name string, _ fs.FileInfo) error {
		if encoding != partialEncoding {
			return nil
		}
		return removeUnused(filepath.Join(c.dir, "layers", encoding, name))
	})
}

// Size is how many bytes are there.
func (p *Partial) Size() (int64, error) {
	fi, err := p.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

// End closes the file, and removes it unless what is there is to be kept.
func (p *Partial) End(keep bool) (err error) {
	if size, failed := p.Size(); !keep || failed == nil && size == 0 {
		if err = os.Remove(p.Name()); errors.Is(err, os.ErrNotExist) {
			err = nil // somebody has pruned
		}
	}
	return errors.Join(err, p.Close())
}
