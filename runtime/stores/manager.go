package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Manager looks after the stores that come to a node after its first boot. Each of its
// methods that change something first makes the node as the state says, so one that
// was killed at any point is made good by the next.
type Manager struct {
	// Dir keeps the state, and the files of stores.
	Dir string
	// Slots are the mount points of stores; the first is the appliance's own.
	Slots []string
	// Read are those slots that CRI-O reads.
	Read []string
	// Unreadable is what is wrong with CRI-O's configuration, if something is.
	Unreadable error
	// Others are the roots of further read-only stores that CRI-O reads.
	Others []string
	// Sets is the folder of sets, and Wanted the images that they ask for.
	Sets   string
	Wanted func() ([]pinset.Image, error)
	// Keys is a folder of OpenPGP keys. If it has any, a store needs a signature of one.
	Keys string
	// Mounter mounts stores.
	Mounter Mounter
	// Open reads a store that is not mounted, and Disc a medium.
	Open func(Extent) (Image, error)
	Disc func(name string) (Disc, error)
	// KeepPrevious is how many releases before the current one stay.
	KeepPrevious int
	// SELinuxContext of what is mounted; "" for none. Unconfigured says that nobody knows
	// it, nor KeepPrevious: Reconcile takes the one of the last attach.
	SELinuxContext string
	Unconfigured   bool
	// Wait is how long to wait for another pinbox-node that is at the stores.
	Wait time.Duration
}

// Image is a store that is not mounted.
type Image interface {
	fs.FS
	io.Closer
}

// ErrBusy says that another pinbox-node attaches or detaches a store.
var ErrBusy = errors.New("another pinbox-node is at the stores")

// lock lets one process at a time change something.
func (k Manager) lock(ctx context.Context) (release func(), err error) {
	return k.lockFile(ctx, stateLock)
}

const stateLock = ".lock"

// lockFile holds one of the locks. So do programs that we run: when we are killed, the
// next pinbox-node waits for them.
func (k Manager) lockFile(ctx context.Context, name string) (release func(), err error) {
	if err := os.MkdirAll(k.Dir, 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(k.Dir, name)
	release, err = filelock.Lock(ctx, path, 0o600, filelock.Options{Wait: k.Wait, Inherit: true})
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%w (%s)", ErrBusy, path)
	}
	return release, err
}

// held says whether somebody holds a lock.
func (k Manager) held(name string) bool { return filelock.Held(filepath.Join(k.Dir, name)) }

// begin locks the stores, and makes them as the state says. The caller calls release.
func (k Manager) begin(ctx context.Context) (s State, release func(), err error) {
	if release, err = k.lock(ctx); err != nil {
		return s, nil, err
	}
	if s, err = ReadState(k.Dir); err == nil {
		_, err = k.settle(ctx, &s)
	}
	if err != nil {
		release()
		return s, nil, err
	}
	return s, release, nil
}

// own are the slots for stores that are attached.
func (k Manager) own() []string {
	return slices.DeleteFunc(slices.Clone(k.Read), func(slot string) bool { return slot == k.Slots[0] })
}

// slot is the mount point of a store.
func (k Manager) slot(o Store) string { return filepath.Join(filepath.Dir(k.Slots[0]), o.Slot) }

// file is pinbox's own copy of a store.
func (k Manager) file(o Store) string { return filepath.Join(k.Dir, o.ID.Encoded()+fileSuffix) }

const fileSuffix = ".squashfs"
