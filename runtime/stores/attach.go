package stores

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Why a store cannot be attached.
var (
	ErrPlatform = fault.New(fault.Input, "the store is for another architecture",
		"build it for this node: spec.platform of the appliance file")
	ErrNoSlot = fault.New(fault.Space, "no slot is free",
		"`pinbox-node detach` removes stores that are not used, `pinbox-node compact` makes one store of several")
	ErrNotConfigured = fault.New(fault.Input, "CRI-O is not configured to read stores at the slots",
		"take /etc/crio/crio.conf.d/50-pinbox-stores from the config.bu of any appliance, make the folders that it "+
			"names, and restart CRI-O; on OpenShift apply the MachineConfigs in manifests/, from 4.23 on also "+
			"manifests/podman/")
	ErrNotListed = fault.New(fault.Damaged, "CRI-O cannot list its images with the store, which was removed again",
		"find out who made the store; CRI-O's log may have more, and so may `pinbox verify` of the original")
)

// AttachOptions are the options of [Manager.Attach].
type AttachOptions struct {
	// Source is the store's file, a folder with it, or the device of a medium; or the number, name, digest or slot of a
	// store that the node has; "" is the attached store with Digest.
	Source string
	// Mirrors are other URLs of the store, if Source is one.
	Mirrors []string
	// Digest of the file; "" reads it from the sums next to the file.
	Digest digest.Digest
	// InPlace mounts the store from its source instead of copying it.
	InPlace bool
	// Take takes the file instead of copying it: it is in a folder below Manager.Dir, and is removed if it is refused.
	Take bool
	// Auto is for an attach that udev requests. It does nothing for a store that is, or once
	// was, attached, and waits for the lock without a limit.
	Auto bool
	// KeepSets does not change the sets.
	KeepSets bool
	// Force makes a release current that is not newer than those of the node, or of another appliance. It has
	// no effect with Auto.
	Force bool
	// GraphRoots of CRI-O's main store, whose names are compared with those of the store; none if
	// CRI-O does not run.
	GraphRoots []string
	// Node is asked on the way; nil skips its checks.
	Node Node
	// Progress is told how far the attach is; nil is fine.
	Progress Progress

	dry bool // that of the session
}

// Node is that of an attach.
type Node interface {
	// Fits returns an error if the state's folder has no room for so many bytes.
	Fits(bytes int64) error
	// List returns why CRI-O cannot list its images. It is called once the store is mounted; a store with which CRI-O
	// cannot is removed again.
	List(ctx context.Context) error
}

// Step is a part of an attach that takes long.
type Step string

// A Manager fetches no store from a server: package node does.
const (
	Fetching  Step = "fetch the store"
	Reading   Step = "read the store"
	Composing Step = "put the store together" // of a thin delta; it has no ID yet
)

// Progress shows the progress of an attach.
type Progress interface {
	// Done says how many bytes of the work of a step are done, of all.
	Done(step Step, of Store, done, all int64)
	// Note says in a line why a step takes longer.
	Note(line string)
}

func (o AttachOptions) fits(bytes int64) error {
	if o.Node == nil {
		return nil
	}
	return o.Node.Fits(bytes)
}

func (o AttachOptions) done(step Step, of Store, done, all int64) {
	if o.Progress != nil {
		o.Progress.Done(step, of, done, all)
	}
}

// Attached is the result of [Manager.Attach].
type Attached struct {
	Store Store
	// Found means that the store was attached before. If Store has no slot, it was removed since.
	Found bool
	// Appliance means that the store equals the appliance's own, or one of Manager.OtherStores.
	Appliance bool
	// Repaired means that it was found, and was copied again, since the copy was damaged or missing.
	Repaired bool
	// Moved are the tags that an earlier release of the appliance gave to other images.
	Moved []string
	// Unordered means that the release, which is current now, may be older than the one before: neither has a number.
	Unordered bool
	// Program is the pinbox-node that the units install from now on, if that has changed; nil if it has not.
	Program *pinset.Program
	// Next is, in a dry run, the release that would become current, with its sets; nil if the current one stays. Most is
	// the space that the attach would take, in bytes: the store of a thin delta has no ID yet.
	Next *Release
	Most int64
	// Unverified means that the store has a signature but the node has no keys in the folder Keys.
	Unverified bool
	Keys       string
}

// Attach copies a store to the node, mounts it and makes its sets current. The copy is the same
// squashfs image, still compressed. CRI-O lists its images at once.
//
// With DryRun it reads the store where it is, compares its digest and signature, and decides as it would decide; it
// changes nothing, and does not know yet whether the store can be mounted.
func (m Manager) Attach(ctx context.Context, o AttachOptions) (Attached, error) {
	if o.Auto { // udev does not try again
		m.Wait = math.MaxInt64
	}
	s, unlock, err := m.beginOrLook(ctx)
	if err != nil {
		return Attached{}, err
	}
	defer unlock()
	o.dry = s.dry
	before := s.programs.named(s.state)
	a, err := s.attachSource(ctx, o)
	a.Next = s.next
	if now := s.programs.named(s.state); now != before {
		a.Program = &now
	}
	return a, err
}

// attachSource attaches the store at a path; what is no path names one that the node has.
func (s *session) attachSource(ctx context.Context, o AttachOptions) (Attached, error) {
	if namesRelease(o.Source) {
		return s.attachNamed(ctx, o)
	}
	src, err := s.sources.find(o.Source, o.Digest)
	if err != nil {
		return Attached{}, err
	}
	return s.attach(ctx, src, o)
}

// namesRelease reports whether a source is the name of a store that the node has, and no path.
func namesRelease(source string) bool {
	_, err := os.Lstat(source)
	return errors.Is(err, fs.ErrNotExist) && source == filepath.Base(source)
}

// nameOf returns the release of the node that a source names.
func (s *State) nameOf(source string) (Release, error) {
	r, err := s.named(source, s.everyRelease())
	if err != nil {
		return r, fmt.Errorf("no such file, and %w", err)
	}
	return r, nil
}

// attach decides by the digest whether the store was attached before. It reads a new store only once
// its digest and its signature are verified.
func (s *session) attach(ctx context.Context, src source, o AttachOptions) (Attached, error) {
	if r := s.state.known(src.id); r != nil {
		return s.reattach(ctx, *r, src, o)
	}
	if a, found, err := findOwn(ctx, s, src, o); found || err != nil {
		return a, err
	}
	if o.Auto && slices.Contains(s.state.Removed, src.id) { // else an old release would become current
		return Attached{Store: Store{ID: src.id}, Found: true}, nil
	}
	slot, err := s.slots.choose(s.state)
	if err == nil && o.InPlace {
		err = s.mounts.verifier.PermitInPlace(ctx)
	}
	if err != nil {
		return Attached{}, err
	}
	g, err := s.sources.stage(ctx, src, o)
	if err != nil {
		return Attached{}, err
	}
	defer g.discard()
	if src.id == "" { // it is signed and has no sums
		src.id = g.id
		if s.state.known(g.id) != nil || o.Auto && slices.Contains(s.state.Removed, g.id) {
			g.discard()
			return s.attach(ctx, src, o)
		}
	}
	return s.add(ctx, src, g, slot, o)
}

// reattach makes the release of an attached store current, and repairs the store if needed.
func (s *session) reattach(ctx context.Context, r Release, src source, o AttachOptions) (a Attached, err error) {
	if a.Repaired, err = s.repair(ctx, src, o); err != nil {
		return a, err
	}
	a.Store, a.Found = *s.state.store(r.Store), true
	current := s.state.Current == r.ID
	if a.Repaired && s.dry { // what the node has of it is not read
		a.Most = spaceFor(src.Size, o)
		if !current && !o.KeepSets {
			s.next, err = &r, checkSuccession(s, r.ID, r.ReleaseID, o)
		}
		return a, err
	}
	if err := s.programs.repair(ctx, r, os.DirFS(s.slots.path(a.Store)), o); err != nil {
		return a, err
	}
	if o.Auto || o.KeepSets || current && !s.releases.stale(s.state, r) {
		return a, nil
	}
	if current {
		return a, s.makeCurrent(ctx, r)
	}
	if r, err = s.withSets(ctx, r, o); err != nil {
		return a, err
	}
	if err := checkSuccession(s, r.ID, r.ReleaseID, o); err != nil {
		return a, err
	}
	a.Unordered = isUnordered(s, r.ID, r.ReleaseID)
	return a, s.makeCurrent(ctx, r)
}

// withSets returns a release with the sets and the program in its store, if it came without.
func (s *session) withSets(ctx context.Context, r Release, o AttachOptions) (Release, error) {
	attached := s.state.store(r.Store)
	if r.Sets != nil || attached == nil {
		return r, nil
	}
	store := os.DirFS(s.slots.path(*attached))
	c, err := readContent(store)
	if err != nil {
		return r, err
	}
	r.Sets, r.Attached = c.Sets, now()
	r.Program, err = s.programs.take(ctx, s.state, store, c.Lock, o)
	return r, err
}

// attachNamed makes a release current that the node has, by its name, number, digest or slot.
func (s *session) attachNamed(ctx context.Context, o AttachOptions) (a Attached, err error) {
	r, err := s.state.nameOf(o.Source)
	if err != nil {
		return a, err
	}
	a.Found, a.Appliance = true, r.ID == ""
	a.Store = Store{ID: s.slots.own, ReleaseID: r.ReleaseID, Slot: ownSlot}
	if attached := s.state.store(r.Store); attached != nil {
		a.Store = *attached
	}
	if o.KeepSets || r.ID == s.state.Current && !s.releases.stale(s.state, r) {
		return a, nil
	}
	return a, s.returnTo(ctx, r)
}

// repair copies a store again if its file is missing or damaged, or if it was used in place and
// is not to be any more.
func (s *session) repair(ctx context.Context, src source, o AttachOptions) (repaired bool, err error) {
	attached := s.state.attachedAs(src.id)
	if attached == nil {
		return false, nil
	}
	problem, err := s.mounts.diagnose(ctx, *attached)
	keep := attached.Path == "" || o.InPlace || o.Auto
	if err != nil || keep && (problem == nil || errors.Is(problem, ErrNoBase) || errors.Is(problem, mount.ErrVerity)) {
		return false, err
	}
	g, err := s.sources.stage(ctx, src, o)
	if err != nil {
		return false, err
	}
	defer g.discard()
	if s.dry {
		return true, nil
	}
	again := *attached
	again.Verity = g.tree
	src.place(&again, o)
	if again.Thin == src.id {
		if again, err = composeThinAgain(ctx, s, g, again, o); err != nil {
			return false, fmt.Errorf("%s: %w", src.Path, err)
		}
	}
	if err := g.commit(s.dir, again); err != nil {
		return false, err
	}
	*attached = again
	return true, errors.Join(s.confirm(ctx, again.ID))
}

// makeApplianceCurrent makes the appliance's own release current.
func (s *session) makeApplianceCurrent(ctx context.Context, o AttachOptions) error {
	own := s.state.release("")
	if own == nil { // nothing was attached yet
		sets, _ := readSets(os.DirFS(s.slots.all[0])) // a node may have no such store
		own = &Release{ReleaseID: s.releases.own, Sets: sets}
	}
	if o.Auto || o.KeepSets || s.state.Current == "" && !s.releases.stale(s.state, *own) {
		return nil
	}
	if s.state.Current == "" {
		return s.makeCurrent(ctx, *own)
	}
	if err := checkSuccession(s, "", own.ReleaseID, o); err != nil {
		return err
	}
	return s.makeCurrent(ctx, *own)
}

// add attaches a store that was not attached before and is verified.
func (s *session) add(
	ctx context.Context, src source, g *staged, slot string, o AttachOptions,
) (a Attached, err error) {
	c, err := s.sources.content(g)
	if err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if root, ok := s.slots.findIdentical(c); ok {
		own := Store{ID: g.id, Slot: filepath.Base(root), Images: len(c.Lock.Images)}
		a = Attached{Store: own, Found: true, Appliance: true}
		return a, s.makeApplianceCurrent(ctx, o)
	}
	store := Store{ID: g.id, ReleaseID: c.Lock.ReleaseID, Images: len(c.Lock.Images), Token: c.Token, Slot: slot,
		Verity: g.tree}
	src.place(&store, o)
	if err := checkSuccession(s, store.ID, store.ReleaseID, o); err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if err := s.admit(store, c); err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if a.Moved, err = (naming{s.slots, s.state.Stores, s.releases.own}).check(store, c, o.GraphRoots); err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if store, err = composeThin(ctx, s, g, store, c, o); err != nil {
		return a, fmt.Errorf("%s: %w", src.Path, err)
	}
	if s.dry {
		a.Store, a.Keys, a.Unverified = store, s.sources.keys, len(src.signature) > 0 && src.keys.IsEmpty()
		a.Most = spaceFor(store.Size, o)
		if !o.KeepSets {
			a.Unordered = isUnordered(s, store.ID, store.ReleaseID)
			s.next = &Release{ID: store.ID, Thin: store.Thin, ReleaseID: store.ReleaseID, Sets: c.Sets}
		}
		return a, nil
	}
	if s.state.store(store.ID) != nil {
		return reattachWhole(ctx, s, store, src, o)
	}
	var program *pinset.Program
	if !o.KeepSets {
		if program, err = takeProgram(ctx, s, g, c, o); err != nil {
			return a, fmt.Errorf("%s: %w", src.Path, err)
		}
	}
	if err := s.save(); err != nil { // ReadState refuses a folder that has stores but no state
		return a, err
	}
	if err := g.commit(s.dir, store); err != nil {
		return a, err
	}
	a.Store, a.Keys, a.Unverified = store, s.sources.keys, len(src.signature) > 0 && src.keys.IsEmpty()
	a.Unordered = !o.KeepSets && isUnordered(s, store.ID, store.ReleaseID)
	before := s.state.clone()
	s.state.SELinuxContext, s.state.Refused = s.mounts.selinuxContext, nil
	s.state.Stores = append(s.state.Stores, store)
	if !o.KeepSets {
		r := Release{ID: store.ID, Thin: store.Thin, Store: store.ID, ReleaseID: store.ReleaseID, Sets: c.Sets}
		r.Program, r.Attached = program, now()
		if err := s.releases.makeCurrent(&s.state, r); err != nil {
			s.state = before
			return a, errors.Join(err, s.dir.sweep(s.state))
		}
	}
	return a, mountNew(ctx, s, store, before, o)
}

// spaceFor is the space that a store of so many bytes takes.
func spaceFor(bytes int64, o AttachOptions) int64 {
	if o.InPlace {
		return 0
	}
	return bytes
}

// now is the time for the state.
func now() time.Time { return time.Now().UTC().Truncate(time.Second) }

// mountNew mounts a store that was added to the state, and applies its sets. A store that cannot be
// mounted, or with which CRI-O cannot list its images, is removed again.
func mountNew(ctx context.Context, s *session, store Store, before State, o AttachOptions) error {
	if err := s.save(); err != nil {
		return err
	}
	found, err := s.mountStores(ctx)
	if err != nil {
		return err
	}
	if problem := found[store.ID]; problem != nil {
		s.state = before
		return errors.Join(problem, s.save(), s.dir.sweep(s.state))
	}
	if o.Node != nil {
		if problem := o.Node.List(ctx); problem != nil {
			problem = fmt.Errorf("%w: %w", ErrNotListed, problem)
			s.state = before
			return errors.Join(problem, takeBack(context.WithoutCancel(ctx), s, store, problem))
		}
	}
	return errors.Join(s.programs.settle(s.state), s.applySets(found))
}

// takeBack unmounts and removes a store with which CRI-O cannot list its images. A process that is
// killed meanwhile leaves the rest to the next one.
func takeBack(ctx context.Context, s *session, o Store, problem error) error {
	o.Removing = true
	s.state.Stores = append(s.state.Stores, o)
	s.state.Refused = &Refused{ID: o.ID, ReleaseID: o.ReleaseID, Reason: problem.Error()}
	if err := s.save(); err != nil {
		return err
	}
	return s.remove(ctx, o)
}

// choose returns the slot for a new store. That needs nothing of the store, so it is known before the
// store is copied.
func (s slots) choose(state State) (string, error) {
	attachable := s.attachable()
	if len(attachable) == 0 {
		return "", errors.Join(ErrNotConfigured, s.configError)
	}
	mounted, err := mount.ReadTable()
	if err != nil {
		return "", err
	}
	slot := state.freeSlot(attachable, mounted)
	if slot == "" {
		return "", fmt.Errorf("%w: all %d have a store", ErrNoSlot, len(attachable))
	}
	return slot, nil
}

// admit decides whether a verified store can be attached.
func (s *session) admit(store Store, c content) error {
	if err := checkPlatform(c.Lock.Platform); err != nil {
		return err
	}
	mounted, err := mount.ReadTable()
	if err != nil {
		return err
	}
	delta := c.Delta
	delta.Needs = needsOf(delta.Requires()) // also those with contents of its layers, if it is thin
	if _, err = s.mounts.bases(store, delta, mounted); errors.Is(err, ErrNoBase) {
		err = &NoBaseError{error: err, mounts: s.mounts, delta: delta}
	}
	return err
}

// NoBaseError is the ErrNoBase of [Manager.Attach].
type NoBaseError struct {
	error
	mounts mounts
	delta  pinset.Delta
}

// Unwrap returns the cause, which is ErrNoBase.
func (e *NoBaseError) Unwrap() error { return e.error }

// Resolved reports whether the base has been mounted since. The store does not need to be copied for
// that.
func (e *NoBaseError) Resolved() bool {
	mounted, err := mount.ReadTable()
	if err != nil {
		return false
	}
	_, err = e.mounts.bases(Store{}, e.delta, mounted) // its slot may have the base now
	return err == nil
}
