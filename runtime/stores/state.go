package stores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// StateVersion is the version of the format of state.json.
const StateVersion = 1

// State is the content of state.json: the attached stores, and which release is current. Its
// file is replaced atomically before the node is changed. Mounts and files that are not in it
// were left by a killed process.
type State struct {
	Version int `json:"version"`
	// Stores in the order in which they were attached.
	Stores []Store `json:"stores,omitempty"`
	// Releases in the order in which they became current.
	Releases []Release `json:"releases,omitempty"`
	// Current is the ID of the release whose sets count; "" for the appliance's own.
	Current digest.Digest `json:"current,omitempty"`
	// SetsPending is true until the sets of the current release are in the folder of sets.
	SetsPending bool `json:"setsPending,omitempty"`
	// RollingBack is true with SetsPending if the release became current by a rollback: the next
	// rollback completes that one, if it failed or was killed, and goes no further.
	RollingBack bool `json:"rollingBack,omitempty"`
	// SetsToRemove are file names in that folder: sets of other releases. When the current sets are
	// written, the files that are not among them are removed.
	SetsToRemove []string `json:"setsToRemove,omitempty"`
	// FormerSets are the digests of sets of releases that are not kept any more, the last ones last: a folder that has
	// one was rolled back.
	FormerSets []digest.Digest `json:"formerSets,omitempty"`
	// Removed are the IDs of stores that were attached and then removed. They are not attached
	// again automatically: udev reports a medium that stays in its drive at every boot.
	Removed []digest.Digest `json:"removed,omitempty"`
	// Compaction is a store that replaces others before CRI-O next starts.
	Compaction *Compaction `json:"compaction,omitempty"`
	// OwnProblem is why the appliance's own store was unmounted; "" if it is mounted.
	OwnProblem string `json:"ownProblem,omitempty"`
	// Refused is the store that was last refused: CRI-O could not list its images with it, or it was
	// plugged in and only an operator can attach it.
	Refused *Refused `json:"refused,omitempty"`
	// SELinuxContext of the last attach, for a boot at which the node's configuration cannot
	// be read.
	SELinuxContext string `json:"selinuxContext,omitempty"`

	// restored is ErrRestored with its cause, of a state that was read from the copy.
	restored error
}

// Store is an attached store.
type Store struct {
	// ID is the digest of its file.
	ID digest.Digest `json:"id"`
	// Thin is the digest of the thin delta that it was made of; "" if it was made of none.
	Thin digest.Digest `json:"thin,omitempty"`
	// ReleaseID is the release of an appliance that it was made for.
	pinset.ReleaseID
	// Slot is the base name of its mount point.
	Slot string `json:"slot"`
	// Size of its file in bytes.
	Size int64 `json:"size"`
	// Images is the number of its images.
	Images int `json:"images"`
	// Token identifies its records: [layout.Store.Token].
	Token string `json:"token"`
	// Verity is the hash tree in its file; zero if it has none.
	Verity verity.Tree `json:"verity,omitzero"`
	// Path and Offset (in bytes) of a store that is used in place; Path is empty if it was
	// copied. If Medium is true, Path is a device, whose name may change.
	Path   string `json:"path,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Medium bool   `json:"medium,omitempty"`
	// Detaching are the graph roots of CRI-O's main store while the store is being detached.
	// If something begins to use the store before it is unmounted, it stays attached.
	Detaching []string `json:"detaching,omitempty"`
	// Removing is true once nothing refers to the store: it is not mounted again, and its
	// mount and its file are removed next.
	Removing bool `json:"removing,omitempty"`
}

// Title is the name of a store in messages.
func (o Store) Title() string {
	if o.Name == "" {
		return Short(o.ID)
	}
	return o.Name + " " + Short(o.ID)
}

// Refused is a store that is not attached, and why.
type Refused struct {
	ID digest.Digest `json:"id"`
	pinset.ReleaseID
	Reason string `json:"reason"`
}

// Release is a store with the sets that came with it.
type Release struct {
	// ID is the digest of the store that was attached with it; "" for the appliance's own.
	ID digest.Digest `json:"id"`
	// Thin is the digest of the thin delta that this store was made of; "" if it was made of none.
	Thin digest.Digest `json:"thin,omitempty"`
	// Store that has its images now: after a compaction, the compacted one.
	Store digest.Digest `json:"store"`
	pinset.ReleaseID
	// Attached is when it came to the node; zero for the appliance's own.
	Attached time.Time `json:"attached,omitzero"`
	// Sets are files for the folder of sets, by their names: as they were attached, or, of a
	// release that was current before, as they were when another became current.
	Sets map[string]string `json:"sets"`
	// Program is the pinbox-node that the units install while the release is current; nil means that of the
	// appliance's own store.
	Program *pinset.Program `json:"program,omitempty"`
}

// Compaction is a compacted store that has not replaced the others yet.
type Compaction struct {
	Store Store `json:"store"`
	// Replaces are the IDs of the stores that it replaces.
	Replaces []digest.Digest `json:"replaces"`
	// GraphRoots of CRI-O's main store: of its images, and of its containers if that is another.
	GraphRoots []string `json:"graphRoots"`
}

// ErrState means that it is unknown which stores are attached.
var ErrState = fault.New(fault.Damaged, "the state of the stores cannot be read",
	"restore the file; or move its folder away and attach the files in it again, oldest first: the name of a file "+
		"is the value for --digest")

// ErrRestored means that the state could not be read, and that its copy counts.
var ErrRestored = fault.New(fault.Damaged, "the state of the stores was restored from its copy",
	"check the disk; the next pass writes the file again")

func stateFile(dir string) string { return filepath.Join(dir, layout.StateFile) }
func stateCopy(dir string) string { return filepath.Join(dir, layout.StateCopy) }

// ReadState reads the state from the folder dir. If its file is lost or damaged, the copy counts,
// and the state says so. Before the first attach there is neither, and the state is empty.
func ReadState(dir string) (State, error) {
	s, err := decodeState(stateFile(dir))
	if err == nil {
		return s, nil
	}
	if !pinset.OtherVersion(err) {
		saved, copyErr := decodeState(stateCopy(dir))
		if copyErr == nil {
			// Before the first store, an empty state is written; without its file nothing was lost.
			if len(saved.Stores)+len(saved.Releases) > 0 || !errors.Is(err, fs.ErrNotExist) {
				saved.restored = fmt.Errorf("%w: %w", ErrRestored, err)
			}
			return saved, nil
		}
		if pinset.OtherVersion(copyErr) {
			err = copyErr
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		files, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix)) // the pattern is valid
		if len(files) == 0 {
			return State{Version: StateVersion}, nil
		}
		err = fmt.Errorf("%w, but %d stores are in the folder", err, len(files))
	}
	if errors.Is(err, pinset.ErrOlder) {
		err = fault.With(err, fault.Input, "use the pinbox-node that wrote it; this one changed nothing")
	}
	if errors.Is(err, pinset.ErrNewer) {
		err = fault.With(err, fault.Input, "use the pinbox-node that comes with the newest store; this one changed nothing")
	}
	return State{}, fmt.Errorf("%w: %w", ErrState, err)
}

func decodeState(path string) (s State, err error) {
	content, err := input.Read(path)
	if err != nil {
		return s, err
	}
	if err = pinset.Decode(bytes.NewReader(content), StateVersion, &s); err == nil {
		err = s.check()
	}
	if err != nil {
		return State{}, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// write writes the copy first: if that fails, nothing has changed.
func (s State) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	folder, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	for _, path := range []string{stateCopy(dir), stateFile(dir)} {
		if _, err := atomicfile.WriteIn(folder, filepath.Base(path), append(content, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// restore writes the file of the state, or its copy, that is lost, and returns why the copy counts.
// On a read-only file system, the one that is left goes on to count.
func (s State) restore(dir string) error {
	if _, err := os.Stat(stateCopy(dir)); s.restored != nil || errors.Is(err, fs.ErrNotExist) {
		_ = s.write(dir) // the next pass tries again
	}
	return s.restored
}

func (s *State) store(id digest.Digest) *Store {
	i := slices.IndexFunc(s.Stores, func(o Store) bool { return o.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Stores[i]
}

func (s *State) release(id digest.Digest) *Release {
	i := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == id })
	if i < 0 {
		return nil
	}
	return &s.Releases[i]
}

// hasRelease reports whether a release has its images in a store.
func (s State) hasRelease(store digest.Digest) bool {
	return slices.ContainsFunc(s.Releases, func(r Release) bool { return r.Store == store })
}

// known returns the release of a store or a thin delta that was attached before, even if the store was
// compacted since; nil if there is none.
func (s *State) known(id digest.Digest) *Release {
	for i, r := range s.Releases {
		if (r.ID == id || id != "" && r.Thin == id) && s.store(r.Store) != nil {
			return &s.Releases[i]
		}
	}
	if o := s.attachedAs(id); o != nil {
		return &Release{ID: o.ID, Thin: o.Thin, Store: o.ID, ReleaseID: o.ReleaseID}
	}
	return nil
}

// attachedAs returns the store that was attached from a file with this digest, which may have been a thin delta.
func (s *State) attachedAs(id digest.Digest) *Store {
	i := slices.IndexFunc(s.Stores, func(o Store) bool { return o.ID == id || id != "" && o.Thin == id })
	if i < 0 {
		return nil
	}
	return &s.Stores[i]
}

// clone copies what a change of the state modifies, so that it can be undone.
func (s State) clone() State {
	s.Stores, s.Releases = slices.Clone(s.Stores), slices.Clone(s.Releases)
	s.SetsToRemove, s.Removed = slices.Clone(s.SetsToRemove), slices.Clone(s.Removed)
	s.FormerSets = slices.Clone(s.FormerSets)
	return s
}

// previous is the release before the current one; nil if there is none.
func (s *State) previous() *Release {
	i := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == s.Current })
	if i < 1 {
		return nil
	}
	return &s.Releases[i-1]
}

// maxFormerSets is how many sets of releases that are not kept are remembered.
const maxFormerSets = 64

// makeCurrent makes a release current, after the one that was current, and drops the releases
// before the last keep. It never drops the appliance's own: its store cannot be detached.
func (s *State) makeCurrent(r Release, keep int) {
	last := s.release(s.Current)
	var order []Release
	for _, o := range s.Releases {
		if o.ID != r.ID && o.ID != s.Current {
			order = append(order, o)
		}
	}
	if last != nil && last.ID != r.ID {
		order = append(order, *last)
	}
	order = append(order, r)
	first := len(order) - 1 - keep
	s.Releases = nil
	for i, o := range order {
		if i >= first || o.ID == "" {
			s.Releases = append(s.Releases, o)
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(o.Sets)) {
			sum := digest.FromString(o.Sets[name])
			s.FormerSets = append(slices.DeleteFunc(s.FormerSets, func(d digest.Digest) bool { return d == sum }), sum)
		}
	}
	s.FormerSets = s.FormerSets[max(0, len(s.FormerSets)-maxFormerSets):]
	s.Current, s.SetsPending, s.RollingBack = r.ID, true, false
}

// drop removes a store and its releases from the state.
func (s *State) drop(id digest.Digest) {
	removed := []digest.Digest{id}
	if o := s.store(id); o != nil && o.Thin != "" {
		removed = append(removed, o.Thin)
	}
	for _, id := range removed {
		if !slices.Contains(s.Removed, id) {
			s.Removed = append(s.Removed, id)
		}
	}
	s.Stores = slices.DeleteFunc(s.Stores, func(o Store) bool { return o.ID == id })
	s.Releases = slices.DeleteFunc(s.Releases, func(r Release) bool { return r.Store == id && r.ID != s.Current })
}

// freeSlot is the first of the slots that no store has and at which nothing is mounted; "" if
// there is none.
func (s State) freeSlot(slots []string, mounted map[string]int) string {
	for _, slot := range slots {
		name := filepath.Base(slot)
		taken := slices.ContainsFunc(s.Stores, func(o Store) bool { return o.Slot == name })
		if !taken && mounted[slot] == 0 {
			return name
		}
	}
	return ""
}

// ErrNotAttached means that a name matches no attached store, or several.
var ErrNotAttached = fault.New(fault.Input, "no such store is attached",
	"`pinbox-node status` lists them")

// find finds a store by its slot, its name, or at least 4 digits of its digest.
func (s State) find(name string) (Store, error) {
	var found []Store
	for _, o := range s.Stores {
		hex := strings.TrimPrefix(name, "sha256:")
		if name == o.Slot || name == o.Name || len(hex) >= 4 && strings.HasPrefix(o.ID.Encoded(), hex) {
			found = append(found, o)
		}
	}
	switch len(found) {
	case 0:
		return Store{}, fmt.Errorf("%q: %w", name, ErrNotAttached)
	case 1:
		return found[0], nil
	}
	var ids []string
	for _, o := range found {
		ids = append(ids, Short(o.ID))
	}
	return Store{}, fmt.Errorf("%q: %w: it matches %d: %s", name, ErrNotAttached, len(found), strings.Join(ids, ", "))
}

// Short is the first 12 digits of a digest, for messages; all of what is no digest.
func Short(d digest.Digest) string {
	_, hex, ok := strings.Cut(d.String(), ":")
	if !ok || len(hex) < 12 {
		return d.String()
	}
	return hex[:12]
}
