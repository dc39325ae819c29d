package artifact

import (
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// ReadLock reads a lock: a lock file, or the lock of a folder, an ISO or a mounted store.
func ReadLock(name string) (lock pinset.Lock, err error) {
	r, err := release.Open(name, nil)
	if err != nil {
		return lock, err
	}
	defer r.Close()
	return r.Lock()
}

// WriteLock writes a lock file.
func WriteLock(name string, lock pinset.Lock) error {
	f, err := atomicfile.Create(name, 0o644)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := lock.Encode(f); err != nil {
		return err
	}
	return f.Commit()
}
