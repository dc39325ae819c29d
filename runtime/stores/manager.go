package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Manager manages the stores that come to a node after its first boot. A verb that changes
// something first makes the node as the state says. So the next verb completes one that was
// killed.
type Manager struct {
	// Dir keeps the state, and the files of stores.
	Dir string
	// Slots are the mount points of stores; the first is the appliance's own.
	Slots []string
	// Configured are those slots that CRI-O reads.
	Configured []string
	// ConfigError is what is wrong with CRI-O's configuration, if something is.
	ConfigError error
	// OtherStores are the roots of further read-only stores that CRI-O reads.
	OtherStores []string
	// Sets is the folder of sets, and Wanted the images that they ask for.
	Sets   string
	Wanted func() ([]pinset.Image, error)
	// Keys is a folder of OpenPGP keys. If it has any, a store needs a signature of one.
	Keys string
	// Mounter mounts stores.
	Mounter Mounter
	// OpenFS reads a store that is not mounted, and Disc a medium.
	OpenFS     func(Extent) (FS, error)
	OpenMedium func(name string) (Medium, error)
	// KeepPrevious is how many releases before the current one stay.
	KeepPrevious int
	// SELinuxContext of what is mounted; "" for none. Unconfigured says that neither it nor
	// KeepPrevious could be read: stores are mounted with the context of the last attach.
	SELinuxContext string
	Unconfigured   bool
	// Wait is how long to wait for another pinbox-node that changes the stores.
	Wait time.Duration
}

// FS is a store that is not mounted.
type FS interface {
	fs.FS
	io.Closer
}

// ErrBusy says that another pinbox-node attaches or detaches a store.
var ErrBusy = errors.New("another pinbox-node is changing the stores")

// parts decide one thing each.
type parts struct {
	dir      folder
	slots    slots
	sources  sources
	mounts   mounts
	usage    usage
	releases releases
}

func (m Manager) parts() parts {
	dir := folder(m.Dir)
	slots := slots{all: m.Slots, read: m.Configured, others: m.OtherStores, unreadable: m.ConfigError}
	sources := sources{dir: dir, keys: m.Keys, openImage: m.OpenFS, openDisc: m.OpenMedium}
	return parts{
		dir: dir, slots: slots, sources: sources,
		mounts: mounts{
			slots: slots, sources: sources, mounter: m.Mounter,
			trial: dir.trial(), selinuxContext: m.SELinuxContext,
		},
		usage:    usage{slots: slots, sources: sources, wanted: m.Wanted},
		releases: releases{sets: m.Sets, slots: slots, keep: m.KeepPrevious},
	}
}

// lock takes one of the locks.
func (m Manager) lock(ctx context.Context, name string) (release func(), err error) {
	return folder(m.Dir).lock(ctx, name, m.Wait)
}

// open locks the stores and reads their state. The caller calls release.
func (m Manager) open(ctx context.Context) (s *session, release func(), err error) {
	if release, err = m.lock(ctx, stateLock); err != nil {
		return nil, nil, err
	}
	state, err := ReadState(m.Dir)
	if err != nil {
		release()
		return nil, nil, err
	}
	if m.Unconfigured {
		m.SELinuxContext = state.SELinuxContext
	}
	return &session{parts: m.parts(), state: state}, release, nil
}

// begin opens the stores and makes the node as their state says.
func (m Manager) begin(ctx context.Context) (s *session, release func(), err error) {
	if s, release, err = m.open(ctx); err != nil {
		return nil, nil, err
	}
	if _, err = s.reconcile(ctx); err != nil {
		release()
		return nil, nil, err
	}
	return s, release, nil
}

// session is what one process does while it holds the lock of the stores.
type session struct {
	parts
	state State
}

// save writes the state.
func (s *session) save() error { return s.state.write(string(s.dir)) }

// confirm writes the state and makes the node so. The problem is that of the store id.
func (s *session) confirm(ctx context.Context, id digest.Digest) (problem, err error) {
	if err := s.save(); err != nil {
		return nil, err
	}
	found, err := s.reconcile(ctx)
	return found[id], err
}

// problems says why stores are not mounted, by their digests.
type problems map[digest.Digest]error

// Reconcile makes the node as the state says: it mounts the stores that are intact and have
// their base, and unmounts the others. stopped says whether CRI-O is stopped, so that a
// compacted store may replace others; nil if CRI-O runs.
func (m Manager) Reconcile(ctx context.Context, stopped func() bool) ([]Status, error) {
	if !m.used() {
		return nil, nil
	}
	s, release, err := m.open(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	var notReplaced error
	if s.state.Compaction != nil && stopped != nil && stopped() {
		notReplaced = s.replaceByCompacted(ctx)
	}
	found, err := s.reconcile(ctx)
	return s.state.statuses(found), errors.Join(notReplaced, err)
}

// used says whether a store ever came to this node.
func (m Manager) used() bool {
	if _, err := os.Stat(stateFile(m.Dir)); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, err := os.Stat(m.Dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// reconcile makes the node as the state says, and tells why stores are not mounted.
func (s *session) reconcile(ctx context.Context) (problems, error) {
	if err := s.sweep(); err != nil {
		return nil, err
	}
	if err := s.mounts.endTrial(ctx); err != nil {
		return nil, err
	}
	found := problems{} // what is wrong with one store does not keep the others from being mounted
	s.finishDetaches(ctx, found)
	if err := s.mounts.unmountBroken(ctx, s.state.Stores, found); err != nil {
		return nil, err
	}
	if err := s.mounts.mountIntact(ctx, s.state.Stores, found); err != nil {
		return nil, err
	}
	return found, s.applySets(found)
}

// sweep removes files that a process which was killed has left.
func (s *session) sweep() error {
	if err := s.releases.sweep(); err != nil {
		return err
	}
	return s.dir.sweep(s.state)
}

// folder keeps the state, and pinbox's own copies of stores.
type folder string

// The locks in the folder.
const (
	// stateLock is held by who changes the state.
	stateLock = ".lock"
	// compactLock is held by who writes a compacted store, which may take long.
	compactLock = ".compact.lock"
)

const (
	fileSuffix = layout.AttachedSuffix
	// partSuffix marks what is being written.
	partSuffix = ".part"
)

// file is pinbox's own copy of a store.
func (f folder) file(o Store) string { return filepath.Join(string(f), o.ID.Encoded()+fileSuffix) }

// compacted is the name of a compacted store until its digest is known.
func (f folder) compacted() string { return filepath.Join(string(f), "compacted"+fileSuffix) }

// trial is a mount point at which CRI-O does not look.
func (f folder) trial() string { return filepath.Join(string(f), "trial") }

// lock takes a lock. Programs that this process runs hold it too: when the process is
// killed, the next pinbox-node waits for them.
func (f folder) lock(ctx context.Context, name string, wait time.Duration) (release func(), err error) {
	if err := os.MkdirAll(string(f), 0o755); err != nil {
		return nil, err
	}
	path := filepath.Join(string(f), name)
	release, err = filelock.Lock(ctx, path, 0o600, filelock.Options{Wait: wait, Inherit: true})
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%w (%s)", ErrBusy, path)
	}
	return release, err
}

// held says whether somebody holds a lock.
func (f folder) held(name string) bool { return filelock.Held(filepath.Join(string(f), name)) }

// sweep removes files of stores that a process which was killed has left.
func (f folder) sweep(s State) error {
	known := map[string]bool{}
	for _, o := range s.Stores {
		known[filepath.Base(f.file(o))] = true
	}
	if s.Compaction != nil {
		known[filepath.Base(f.file(s.Compaction.Store))] = true
	}
	if f.held(compactLock) {
		known[filepath.Base(f.compacted())], known[filepath.Base(f.compacted())+partSuffix] = true, true
	}
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), fileSuffix) || strings.HasSuffix(e.Name(), partSuffix)
		if ours && !known[e.Name()] && !e.IsDir() {
			err = errors.Join(err, os.Remove(filepath.Join(string(f), e.Name())))
		}
	}
	return err
}
