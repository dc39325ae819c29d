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
	ErrNoSlot        = errors.New("no slot is free")
	ErrNotConfigured = errors.New("CRI-O is not configured to read stores at the slots")
	ErrInPlace       = errors.New("a node that requires signatures cannot use a medium in place")
)

// AttachOptions are the options of [Manager.Attach].
type AttachOptions struct {
	// Source is the store's file, a folder with it, or the device of a medium.
	Source string
	// Digest of the file; "" reads it from the sums next to the file.
	Digest digest.Digest
	// InPlace mounts the store from its source instead of copying it.
	InPlace bool
	// Auto is for an attach that udev requests. It does nothing for a store that is, or once
	// was, attached, and waits for the lock without a limit.
	Auto bool
	// KeepSets does not change the sets.
	KeepSets bool
	// CheckSpace returns an error if the state's folder has no room for so many bytes; nil
	// skips the check.
	CheckSpace func(bytes int64) error
	// Progress is called with the bytes read so far and the size of the store; nil is fine.
	Progress func(read, size int64)
}

// Attached is the result of [Manager.Attach].
type Attached struct {
	Store Store
	// Found means that the store was attached before. If Store has no slot, it was removed since.
	Found bool
	// Appliance means that the store equals the appliance's own, or one of Manager.OtherStores.
	Appliance bool
	// Unverified means that the store has a signature but the node has no keys.
	Unverified bool
}

// Attach copies a store to the node, mounts it and makes its sets current. The copy is the same
// squashfs image, still compressed. CRI-O lists its images at once.
func (m Manager) Attach(ctx context.Context, o AttachOptions) (Attached, error) {
	if o.Auto { // udev does not try again
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
	if o.Auto && slices.Contains(s.state.Removed, src.id) { // else an old release would become current
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
	if r.Sets == nil { // it was attached with KeepSets
		c, err := readContent(os.DirFS(s.slots.path(a.Store)))
		if err != nil {
			return a, err
		}
		r.Sets = c.Sets
	}
	return a, s.makeCurrent(ctx, r)
}

// repair copies a store again if its file is missing or damaged, or if it was used in place and
// is not to be any more.
func (s *session) repair(ctx context.Context, src source, o AttachOptions) error {
	attached := s.state.store(src.id)
	if attached == nil {
		return nil
	}
	problem, err := s.mounts.diagnose(*attached)
	keep := attached.Path == "" || o.InPlace || o.Auto
	if err != nil || keep && (problem == nil || errors.Is(problem, ErrNoBase)) {
		return err
	}
	repaired := *attached
	repaired.Path, repaired.Offset, repaired.Medium = "", 0, false
	if err := s.sources.copyVerified(ctx, &repaired, src, o); err != nil {
		return err
	}
	*attached = repaired
	return errors.Join(s.confirm(ctx, src.id))
}

// makeApplianceCurrent makes the appliance's own release current.
func (s *session) makeApplianceCurrent(ctx context.Context, o AttachOptions) error {
	own := s.state.release("")
	if own == nil || s.state.Current == "" || o.Auto || o.KeepSets {
		return nil
	}
	return s.makeCurrent(ctx, *own)
}

// add attaches a store that was not attached before.
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
		if err := s.releases.makeCurrent(&s.state, r); err != nil {
			return a, err
		}
	}
	problem, err := s.confirm(ctx, store.ID)
	if problem != nil { // a store that cannot be mounted is not attached
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
		return Store{}, errors.Join(ErrNotConfigured, s.slots.configError)
	}
	if o.Slot == "" {
		return Store{}, fmt.Errorf("%w: all %d have a store", ErrNoSlot, len(attachable))
	}
	return o, nil
}
