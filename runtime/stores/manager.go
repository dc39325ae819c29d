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

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Manager manages the stores that are attached to a node after its first boot. Before a method
// changes the state, it makes the node match the state. So it completes whatever a killed process
// has begun.
type Manager struct {
	// DryRun makes Attach, Detach, DetachUnused and Compact decide what they would do, and change nothing.
	DryRun bool
	// Dir is the folder of the state and of the copied stores.
	Dir string
	// Slots are the mount points of stores. The appliance's own store has the first.
	Slots []string
	// Configured are the slots that CRI-O's configuration names. ConfigError is why that could
	// not be read.
	Configured  []string
	ConfigError error
	// OtherStores are the graph roots of other additional image stores of CRI-O.
	OtherStores []string
	// RunRoots are the folders with records of containers/storage that do not survive a reboot. They may be missing.
	RunRoots []string
	// Appliance is the release of the appliance's own store, and OwnStore the digest of the file of that
	// store; zero if they are unknown.
	Appliance pinset.ReleaseID
	OwnStore  digest.Digest
	// Programs is the folder of the programs of later releases, and OwnProgram that of the appliance's own store;
	// zero if the units do not install it, and then no other one.
	Programs   string
	OwnProgram pinset.Program
	// Sets is the folder of sets, and Wanted returns the images that all sets ask for.
	Sets   string
	Wanted func() ([]pinset.Image, error)
	// Keys is a folder of public keys: see package signature. If it has any, a store needs a signature by one of them.
	Keys string
	// Signed means that a store needs a signature also if there are no keys, so that none is attached then.
	Signed bool
	// Mounter mounts and unmounts stores.
	Mounter mount.Mounter
	// Mapper opens stores by dm-verity; nil means [mount.DMSetup]. Verity is when.
	Mapper mount.DeviceMapper
	Verity layout.Verity
	// OpenFS opens a store that is not mounted, OpenMedium a medium; nil means the functions
	// [OpenFS] and [OpenMedium].
	OpenFS     func(mount.Extent) (FS, error)
	OpenMedium func(name string) (Medium, error)
	// KeepPrevious is how many releases before the current one are kept.
	KeepPrevious int
	// SELinuxContext of mounted stores; "" for none. Unconfigured means that neither it nor
	// KeepPrevious could be read: then the context of the last attach is used.
	SELinuxContext string
	Unconfigured   bool
	// Wait is how long to wait while another pinbox-node changes the stores.
	Wait time.Duration
}

// FS is the file system of a store that is read without mounting it.
type FS interface {
	fs.FS
	io.Closer
}

// ErrBusy means that another pinbox-node attaches or detaches a store.
var ErrBusy = fault.New(fault.Busy, "another pinbox-node is changing the stores",
	"--wait sets how long to wait for it")

// tools are what a Manager works with: each makes one kind of decision.
type tools struct {
	dir      folder
	slots    slots
	sources  sources
	mounts   mounts
	usage    usage
	releases releases
	programs programs
}

func (m Manager) tools() tools {
	dir := folder(m.Dir)
	slots := slots{
		all: m.Slots, configured: m.Configured, configError: m.ConfigError, others: m.OtherStores, own: m.OwnStore,
	}
	sources := sources{dir: dir, keys: m.Keys, signed: m.Signed, openFS: m.OpenFS, openMedium: m.OpenMedium}
	if sources.openFS == nil {
		sources.openFS = OpenFS
	}
	if sources.openMedium == nil {
		sources.openMedium = OpenMedium
	}
	if m.Mapper == nil {
		m.Mapper = mount.DMSetup{}
	}
	return tools{
		dir: dir, slots: slots, sources: sources,
		mounts: mounts{
			slots: slots, sources: sources, mounter: m.Mounter,
			trial: dir.trial(), selinuxContext: m.SELinuxContext,
			verifier: mount.Verifier{
				Policy: m.Verity, Mapper: mount.AskOnce(m.Mapper), Required: m.Signed || requiresSignatures(m.Keys),
			},
		},
		usage:    usage{slots: slots, sources: sources, wanted: m.Wanted, runRoots: m.RunRoots},
		releases: releases{sets: m.Sets, slots: slots, own: m.Appliance, keep: m.KeepPrevious},
		programs: programs{dir: m.Programs, own: m.OwnProgram},
	}
}

// lock takes a lock in the state's folder.
func (m Manager) lock(ctx context.Context, name string) (unlock func(), err error) {
	return folder(m.Dir).lock(ctx, name, m.Wait)
}

// open locks and reads the state. The caller calls unlock.
func (m Manager) open(ctx context.Context) (s *session, unlock func(), err error) {
	if unlock, err = m.lock(ctx, stateLock); err != nil {
		return nil, nil, err
	}
	state, err := readState(m)
	if err != nil {
		unlock()
		return nil, nil, err
	}
	if m.Unconfigured {
		m.SELinuxContext = state.SELinuxContext
	}
	return &session{tools: m.tools(), state: state}, unlock, nil
}

// begin locks and reads the state and makes the node match it. The caller calls unlock.
func (m Manager) begin(ctx context.Context) (s *session, unlock func(), err error) {
	if s, unlock, err = m.open(ctx); err != nil {
		return nil, nil, err
	}
	if _, err = s.reconcile(ctx); err != nil {
		unlock()
		return nil, nil, err
	}
	return s, unlock, nil
}

// session is the work of one process while it holds the lock of the state.
type session struct {
	tools
	state State
	dry   bool // nothing is written
	// next is the release that a dry run would make current; nil for none.
	next *Release
}

// save writes the state.
func (s *session) save() error { return s.state.write(string(s.dir)) }

// confirm writes the state and makes the node match it. problem is why the store id is not
// mounted.
func (s *session) confirm(ctx context.Context, id digest.Digest) (problem, err error) {
	if err := s.save(); err != nil {
		return nil, err
	}
	found, err := s.reconcile(ctx)
	return found[id], err
}

// problems are the reasons why stores are not mounted, by the IDs of the stores.
type problems map[digest.Digest]error

// Reconcile makes the node match the state: it mounts the stores that are intact and whose base
// is mounted, and unmounts the others. stopped reports whether CRI-O is stopped: only then does a
// compacted store replace others, and is the appliance's own store checked. A nil stopped means that
// CRI-O runs.
func (m Manager) Reconcile(ctx context.Context, stopped func() bool) ([]Status, error) {
	starts := stopped != nil && stopped()
	var own error
	if starts {
		own = m.checkOwn(ctx)
	}
	if own == nil && !m.hasState() {
		return (&State{}).statuses(ctx, m.tools().mounts, nil)
	}
	s, unlock, err := m.open(ctx)
	if err != nil {
		return nil, errors.Join(own, err)
	}
	defer unlock()
	restored := s.state.restore(string(s.dir))
	var notReplaced error
	if s.state.Compaction != nil && starts {
		notReplaced = s.replaceByCompacted(ctx)
	}
	notSaved := noteOwn(s, own)
	found, err := s.reconcile(ctx)
	all, statusErr := s.state.statuses(ctx, s.mounts, found)
	return all, errors.Join(restored, notReplaced, notSaved, err, statusErr, s.releases.checkSets(s.state))
}

// hasState reports whether a store was ever attached to this node.
func (m Manager) hasState() bool {
	if _, err := os.Stat(stateFile(m.Dir)); !errors.Is(err, fs.ErrNotExist) {
		return true
	}
	_, err := os.Stat(m.Dir)
	return !errors.Is(err, fs.ErrNotExist)
}

// reconcile makes the node match the state, and returns why stores are not mounted.
func (s *session) reconcile(ctx context.Context) (problems, error) {
	found, err := s.mountStores(ctx)
	if err != nil {
		return nil, err
	}
	return found, errors.Join(s.programs.settle(s.state), s.applySets(found))
}

// mountStores mounts and unmounts stores to match the state, and returns why stores are not mounted. It
// writes nothing outside of the state's folder: /etc may be read-only.
func (s *session) mountStores(ctx context.Context) (problems, error) {
	if err := s.dir.sweep(s.state); err != nil {
		return nil, err
	}
	if err := s.mounts.endTrial(ctx); err != nil {
		return nil, err
	}
	found := problems{} // a problem of one store does not keep others from being mounted
	s.finishDetaches(ctx, found)
	if err := s.mounts.unmountBroken(ctx, s.state.Stores, found); err != nil {
		return nil, err
	}
	s.mounts.verifier.Sweep(ctx)
	if err := s.mounts.mountIntact(ctx, s.state.Stores, found); err != nil {
		return nil, err
	}
	return found, nil
}

// folder is the folder of the state and of the copied stores.
type folder string

// The lock files in the folder.
const (
	// stateLock is held while the state is changed.
	stateLock = ".lock"
	// compactLock is held while a compacted store is written, which may take minutes.
	compactLock = ".compact.lock"
)

const (
	fileSuffix = layout.AttachedSuffix
	// partSuffix is the suffix of files that are being fetched.
	partSuffix = ".part"
)

// file is the path of the copy of a store.
func (f folder) file(o Store) string { return filepath.Join(string(f), o.ID.Encoded()+fileSuffix) }

// compacted is the path of a compacted store until its digest is known.
func (f folder) compacted() string { return filepath.Join(string(f), "compacted"+fileSuffix) }

// composed is the path of the store of a thin delta until its digest is known.
func (f folder) composed() string { return filepath.Join(string(f), "composed"+fileSuffix) }

// incoming is the path of a new store until its documents are checked.
func (f folder) incoming() string { return filepath.Join(string(f), "incoming"+fileSuffix) }

// adopt gives a complete file of the folder the name of its store.
func (f folder) adopt(file string, o Store) error {
	if err := os.Rename(file, f.file(o)); err != nil {
		return err
	}
	return atomicfile.SyncDir(string(f))
}

// trial is a mount point that CRI-O does not read.
func (f folder) trial() string { return filepath.Join(string(f), "trial") }

// lock takes a lock in the folder, which only root can read: another user who could open a lock could hold
// it. Programs that this process runs inherit it: if the process is killed,
// the next pinbox-node waits for them.
func (f folder) lock(ctx context.Context, name string, wait time.Duration) (unlock func(), err error) {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(string(f), name)
	unlock, err = filelock.Lock(ctx, path, 0o600, filelock.Options{Wait: wait, Inherit: true})
	if errors.Is(err, filelock.ErrLocked) {
		return nil, fmt.Errorf("%w (%s)", ErrBusy, path)
	}
	return unlock, err
}

// held reports whether a process holds a lock.
func (f folder) held(name string) bool { return filelock.Held(filepath.Join(string(f), name)) }

// sweep removes the files of stores that are not in the state.
func (f folder) sweep(s State) error {
	known := map[string]bool{}
	for _, o := range s.Stores {
		known[filepath.Base(f.file(o))] = true
	}
	if s.Compaction != nil {
		known[filepath.Base(f.file(s.Compaction.Store))] = true
	}
	if f.held(compactLock) {
		for _, file := range []string{f.compacted(), atomicfile.Partial(f.compacted())} {
			known[filepath.Base(file)] = true
		}
	}
	entries, err := os.ReadDir(string(f))
	for _, e := range entries {
		ours := strings.HasSuffix(e.Name(), fileSuffix) || strings.HasSuffix(e.Name(), atomicfile.PartialSuffix) ||
			strings.HasSuffix(e.Name(), partSuffix)
		if ours && !known[e.Name()] && !e.IsDir() {
			err = errors.Join(err, os.Remove(filepath.Join(string(f), e.Name())))
		}
	}
	return err
}
