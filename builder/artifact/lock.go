package artifact

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ReadLock reads a lock: a lock file, or the lock in an appliance's folder or ISO.
func ReadLock(name string) (pinset.Lock, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return pinset.Lock{}, err
	}
	if fi.IsDir() {
		return readLock(filepath.Join(name, LockFile))
	}
	if image, f, err := iso.OpenFile(name); err == nil {
		defer f.Close()
		return lockIn(image, name)
	}
	return readLock(name)
}

// lockIn reads the lock in an ISO.
func lockIn(image *iso.Image, name string) (pinset.Lock, error) {
	inside, err := image.Find(path.Join(iso.Dir, ISOLock))
	if err != nil {
		return pinset.Lock{}, fmt.Errorf("%s: %w", name, err)
	}
	return DecodeLock(inside.Reader(), name)
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

func readLock(name string) (pinset.Lock, error) {
	f, err := input.Open(name)
	if err != nil {
		return pinset.Lock{}, err
	}
	defer f.Close()
	return DecodeLock(f, name)
}

// DecodeLock reads a lock; name is for errors.
func DecodeLock(r io.Reader, name string) (pinset.Lock, error) {
	lock, err := pinset.DecodeLock(r)
	if err != nil {
		return pinset.Lock{}, fmt.Errorf("%s: %w", name, err)
	}
	return lock, nil
}
