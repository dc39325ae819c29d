package setup

import (
	"errors"
	"fmt"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// checkImageStore returns an error for a store in the image that each boot would refuse since its release has no
// number: a node could not tell whether the one in its next image is newer. It asks the lock beside the store; a store
// without one has only its own, which is read when it is attached.
func (h host) checkImageStore(name string) error {
	beside := path.Join(name, layout.LockFile)
	f, err := h.openFile(beside)
	if errors.Is(err, unix.ENOTDIR) {
		beside = path.Join(path.Dir(name), layout.LockFile)
		f, err = h.openFile(beside)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lock, err := pinset.DecodeLock(f)
	if err != nil {
		return fmt.Errorf("%s: %w", beside, err)
	}
	if lock.Number == 0 {
		return fault.With(fmt.Errorf("%s: %w", name, pinset.ErrNoNumber), fault.Input,
			"build the store with a number, metadata.release of the appliance file")
	}
	return nil
}
