package setup

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// checkImageStore returns an error for a store in the image that the boot would refuse since its release has no
// number: a node could not tell whether the one in its next image is newer. It asks the lock beside the store; a store
// without one has only its own, which is read when it is attached.
func (h host) checkImageStore(name string) error {
	f, err := h.open(name, unix.O_PATH)
	if err != nil {
		return err
	}
	defer f.Close()
	path := name
	if h.root != "/" { // where the links of the image lead
		if path, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", f.Fd())); err != nil {
			return err
		}
	}
	r, err := release.Open(path, nil)
	if err != nil {
		return err
	}
	defer r.Close()
	lock, err := r.Lock()
	switch {
	case release.IsMissing(err) || errors.Is(err, release.ErrNotAppliance):
		return nil
	case err != nil:
		return err
	case lock.Number == 0:
		return fault.With(fmt.Errorf("%s: %w", name, pinset.ErrNoNumber), fault.Input,
			"build the store with a number, metadata.release of the appliance file")
	}
	return nil
}
