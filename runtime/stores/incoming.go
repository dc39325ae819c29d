package stores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
)

// incomingLock is held while a store is fetched from a server, which may take hours.
const incomingLock = ".incoming.lock"

// Incoming is the folder where a store is, while it is fetched and until it is attached: one at a time.
type Incoming struct {
	dir    string
	unlock func()
}

// OpenIncoming locks the folder. The error is ErrBusy if another process fetches a store.
func OpenIncoming(ctx context.Context, m Manager) (*Incoming, error) {
	unlock, err := folder(m.Dir).lock(ctx, incomingLock, 0)
	if err != nil {
		return nil, err
	}
	return &Incoming{filepath.Join(m.Dir, "incoming"), unlock}, nil
}

// Close unlocks the folder.
func (in *Incoming) Close() { in.unlock() }

// Folder returns the folder for a store, and how many bytes of its file are there. What is there of other stores is
// removed.
func (in *Incoming) Folder(id digest.Digest, name string) (dir string, have int64, err error) {
	entries, err := os.ReadDir(in.dir)
	if err := fault.Ignore(err, fs.ErrNotExist); err != nil {
		return "", 0, err
	}
	err = nil
	for _, e := range entries {
		if e.Name() != id.Encoded() {
			err = errors.Join(err, os.RemoveAll(filepath.Join(in.dir, e.Name())))
		}
	}
	dir = filepath.Join(in.dir, id.Encoded())
	for _, file := range []string{name, name + partSuffix} {
		if fi, err := os.Stat(filepath.Join(dir, file)); err == nil {
			have = max(have, fi.Size())
		}
	}
	return dir, have, err
}

// Clear removes what was fetched.
func (in *Incoming) Clear() error { return os.RemoveAll(in.dir) }

// Lacks reports whether a store, or the thin delta that it is made of, has to be brought to the node. The error is why
// it could not be attached.
func Lacks(ctx context.Context, m Manager, id digest.Digest) (bool, error) {
	s, unlock, err := m.begin(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	if s.state.known(id) != nil {
		attached := s.state.attachedAs(id)
		if attached == nil { // a compacted store has it
			return false, nil
		}
		problem, err := s.mounts.diagnose(ctx, *attached)
		return problem != nil && !errors.Is(problem, ErrNoBase) && !errors.Is(problem, mount.ErrVerity), err
	}
	if id == s.slots.own {
		return false, nil
	}
	_, err = s.slots.choose(s.state)
	return true, err
}
