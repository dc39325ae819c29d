package stores

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"

	"github.com/opencontainers/go-digest"
)

// Why a store cannot be attached.
var (
	ErrPlatform      = errors.New("the store is for another architecture")
	ErrNoSlot        = errors.New("every slot has a store")
	ErrNotConfigured = errors.New("CRI-O is not configured to read stores at the slots")
	ErrInPlace       = errors.New("a node that requires signatures does not use a medium in place")
)

// AttachOptions of a store.
type AttachOptions struct {
	// Source is the store's file, a folder with it, or the device of a medium.
	Source string
	// Digest of the file, where nothing beside it tells.
	Digest digest.Digest
	// InPlace uses the store where it is, rather than to copy it.
	InPlace bool
	// Auto says that nobody asked for the store. One that is attached already, or was once,
	// changes nothing. Another waits for those before it without a limit.
	Auto bool
	// KeepSets leaves the sets as they are.
	KeepSets bool
	// CheckSpace says why there is no room for so many bytes in the state's folder.
	CheckSpace func(bytes int64) error
	// Progress is called with the bytes that were read, of all; nil is fine.
	Progress func(done, all int64)
}

// Attached is the result of Attach.
type Attached struct {
	Store Store
	// Found says that it was there already, or once if it has no slot.
	Found bool
	// Appliance says that it is the node's own store, or one beside it.
	Appliance bool
	// Unverified says that it has a signature, and the node no keys.
	Unverified bool
}

// Attach brings a store to the node, and makes its sets current. The file is copied as it is,
// still compressed. CRI-O sees its images at once.
func (m Manager) Attach(ctx context.Context, o AttachOptions) (Attached, error) {
	if o.Auto { // nobody is there to try again
		m.Wait = math.MaxInt64
	}
	s, release, err := m.begin(ctx)
	if err != nil {
		return Attached{}, err
	}
	defer release()
	src, err := s.sources.find(o.Source, o.Digest)
	if err != nil {
		return Attached{}, err
	}
	c, err := s.sources.read(src)
	if err != nil {
		return Attached{}, err
	}
	if r := s.state.known(src.id); r != nil {
		return s.reattach(ctx, *r, src, o)
	}
	found := Attached{Store: Store{ID: src.id, Images: len(c.Lock.Images)}, Found: true}
	if o.Auto && slices.Contains(s.state.Removed, src.id) { // it would make an old release current
		return found, nil
	}
	if root, ok := s.slots.findIdentical(c); ok {
		found.Appliance, found.Store.Slot = true, filepath.Base(root)
		return found, s.makeApplianceCurrent(ctx, o)
	}
	return s.add(ctx, src, c, o)
}

// reattach makes the release of an attached store current, and repairs the store if needed.
func (s *session) reattach(ctx context.Context, r Release, src source, o AttachOptions) (Attached, error) {
	if err := s.repair(ctx, src, o); err != nil {
		return Attached{}, err
	}
	a := Attached{Store: *s.state.store(r.Store), Found: true}
	if o.Auto || o.KeepSets || s.state.Current == r.ID {
		return a, nil
	}
	if r.Sets == nil { // it came without
		c, err := readContent(os.DirFS(s.slots.path(a.Store)))
		if err != nil {
			return a, err
		}
		r.Sets = c.Sets
	}
	return a, s.makeCurrent(ctx, r)
}

// repair copies a store again whose file is lost or damaged, or was used in place.
func (s *session) repair(ctx context.Context, src source, o AttachOptions) error {
	there := s.state.store(src.id)
	if there == nil {
		return nil
	}
	problem, err := s.mounts.diagnose(*there)
	stays := there.Path == "" || o.InPlace || o.Auto // where it is
	if err != nil || stays && (problem == nil || errors.Is(problem, ErrNoBase)) {
		return err
	}
	repaired := *there
	repaired.Path, repaired.Offset, repaired.Medium = "", 0, false
	if err := s.sources.copyVerified(ctx, &repaired, src, o); err != nil {
		return err
	}
	*there = repaired
	return errors.Join(s.confirm(ctx, src.id))
}

// makeApplianceCurrent makes the release of the appliance's own store current.
func (s *session) makeApplianceCurrent(ctx context.Context, o AttachOptions) error {
	own := s.state.release("")
	if own == nil || s.state.Current == "" || o.Auto || o.KeepSets {
		return nil
	}
	return s.makeCurrent(ctx, *own)
}

// add attaches a store that is not there yet.
func (s *session) add(ctx context.Context, src source, c content, o AttachOptions) (a Attached, err error) {
	store, err := s.admit(src, c)
	if err != nil {
		return a, err
	}
	if err := s.sources.copyVerified(ctx, &store, src, o); err != nil {
		return a, err
	}
	if c, err = s.sources.recheck(store); err != nil {
		return a, err
	}
	a.Store, a.Unverified = store, len(src.signature) > 0 && !hasKeys(s.sources.keys)
	before := s.state.clone()
	s.state.SELinuxContext = s.mounts.selinuxContext
	s.state.Stores = append(s.state.Stores, store)
	if !o.KeepSets {
		r := Release{ID: store.ID, Store: store.ID, Name: store.Name, Sets: c.Sets}
		if err := s.releases.take(&s.state, r); err != nil {
			return a, err
		}
	}
	problem, err := s.confirm(ctx, store.ID)
	if problem != nil { // what cannot be mounted is not attached
		s.state = before
		err = errors.Join(problem, s.save(), s.sweep())
	}
	return a, err
}

// admit decides whether a store can be attached, and at which slot.
func (s *session) admit(src source, c content) (Store, error) {
	if _, arch, _ := c.Lock.Platform.Split(); arch != goruntime.GOARCH {
		return Store{}, fmt.Errorf("%s: %w: %s", src.Path, ErrPlatform, c.Lock.Platform)
	}
	mounted, err := readMountTable()
	if err != nil {
		return Store{}, err
	}
	attachable := s.slots.attachable()
	o := Store{
		ID: src.id, Name: c.Delta.Name, Images: len(c.Lock.Images), Token: c.Token,
		Slot: s.state.freeSlot(attachable, mounted),
	}
	if _, err := s.mounts.bases(o, c.Delta, mounted); err != nil {
		return Store{}, err
	}
	if len(attachable) == 0 {
		return Store{}, errors.Join(ErrNotConfigured, s.slots.unreadable)
	}
	if o.Slot == "" {
		return Store{}, fmt.Errorf("%w: all %d are taken", ErrNoSlot, len(attachable))
	}
	return o, nil
}
