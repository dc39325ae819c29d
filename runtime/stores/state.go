package stores

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// stateVersion is the version of the format of the state.
const stateVersion = 1

// State is what was attached to the node, and which release is current: one file, which is
// replaced as a whole. The node is made as it says; what the node has beside it was left by a
// process that was killed.
type State struct {
	Version int `json:"version"`
	// Stores in the order in which they came.
	Stores []Store `json:"stores,omitempty"`
	// Releases that the node can have, each current one after the one before it.
	Releases []Release `json:"releases,omitempty"`
	// Current is the ID of the release whose sets count; "" for the appliance's own.
	Current digest.Digest `json:"current,omitempty"`
	// SetsPending says that the folder of sets has yet to follow.
	SetsPending bool `json:"setsPending,omitempty"`
	// SetsToRemove are files of it that then go: those of the release before.
	SetsToRemove []string `json:"setsToRemove,omitempty"`
	// Removed are the stores that are not attached any more. A medium that stays in its drive
	// offers one at every boot.
	Removed []digest.Digest `json:"removed,omitempty"`
	// Compaction is a store that takes the place of others when CRI-O starts next.
	Compaction *Compaction `json:"compaction,omitempty"`
	// SELinuxContext of what was mounted last, for a boot at which nobody can read how the
	// appliance keeps its stores.
	SELinuxContext string `json:"selinuxContext,omitempty"`
}

// Store is one that was attached.
type Store struct {
	// ID is the digest of its file.
	ID digest.Digest `json:"id"`
	// Name of its appliance, if it says one.
	Name string `json:"name,omitempty"`
	// Slot is the name of its mount point among the slots.
	Slot string `json:"slot"`
	// Size of its file in bytes.
	Size int64 `json:"size"`
	// Images that it has records of.
	Images int `json:"images"`
	// Token tells its records from those of other stores.
	Token string `json:"token"`
	// Path of its bytes, if they are not in pinbox's own copy: a file, and where they
	// begin in it; or the device of a medium, which may have another name by now.
	Path   string `json:"path,omitempty"`
	Offset int64  `json:"offset,omitempty"`
	Medium bool   `json:"medium,omitempty"`
	// Detaching is the root of CRI-O's own store, while the store is being detached.
	Detaching string `json:"detaching,omitempty"`
	// Removing says that nothing refers to it any more: what is left of it goes.
	Removing bool `json:"removing,omitempty"`
}

// title is how people know a store.
func (o Store) title() string {
	if o.Name == "" {
		return Short(o.ID)
	}
	return o.Name + " " + Short(o.ID)
}

// Release is a store with the sets that came with it.
type Release struct {
	// ID is the digest of the store's file as it came; "" of the appliance's own.
	ID digest.Digest `json:"id"`
	// Store that has it: another, once that was compacted.
	Store digest.Digest `json:"store"`
	Name  string        `json:"name,omitempty"`
	// Sets are files for the folder of sets, by their names: as they came, or as they
	// were when the release was left.
	Sets map[string]string `json:"sets"`
}

// Compaction is a store that was made of others.
type Compaction struct {
	Store    Store           `json:"store"`
	Replaces []digest.Digest `json:"replaces"`
	// GraphRoot of CRI-O's own store.
	GraphRoot string `json:"graphRoot"`
}

// ErrState says that nobody knows what was attached.
var ErrState = errors.New("the record of attached stores cannot be read")

func stateFile(dir string) string { return filepath.Join(dir, layout.StateFile) }

// ReadState reads the state below dir; there is none before the first store comes.
func ReadState(dir string) (State, error) {
	s := State{Version: stateVersion}
	content, err := os.ReadFile(stateFile(dir))
	if errors.Is(err, fs.ErrNotExist) {
		files, _ := filepath.Glob(filepath.Join(dir, "*"+fileSuffix)) // the pattern is a good one
		if len(files) == 0 {
			return s, nil
		}
		err = fmt.Errorf("%w, though %d files of stores are", err, len(files))
	}
	if err == nil {
		err = pinset.Decode(bytes.NewReader(content), stateVersion, &s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return State{}, fmt.Errorf("%w: %s: %w", ErrState, stateFile(dir), err)
	}
	return s, nil
}

func (s State) write(dir string) error {
	content, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	_, err = atomicfile.WriteVia(stateFile(dir)+partSuffix, stateFile(dir), append(content, '\n'), 0o600)
	return err
}

func (s *State) store(id digest.Digest) *Store {
	if i := slices.IndexFunc(s.Stores, func(o Store) bool { return o.ID == id }); i >= 0 {
		return &s.Stores[i]
	}
	return nil
}

func (s *State) release(id digest.Digest) *Release {
	if i := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == id }); i >= 0 {
		return &s.Releases[i]
	}
	return nil
}

// known finds the release of a store that came before, even if that was compacted since.
func (s *State) known(id digest.Digest) *Release {
	if r := s.release(id); r != nil && s.store(r.Store) != nil {
		return r
	}
	if o := s.store(id); o != nil {
		return &Release{ID: id, Store: id, Name: o.Name}
	}
	return nil
}

// clone is for the case that a change is taken back.
func (s State) clone() State {
	s.Stores, s.Releases = slices.Clone(s.Stores), slices.Clone(s.Releases)
	s.SetsToRemove, s.Removed = slices.Clone(s.SetsToRemove), slices.Clone(s.Removed)
	return s
}

// previous is the release before the current one, nil if there is none.
func (s *State) previous() *Release {
	i := slices.IndexFunc(s.Releases, func(r Release) bool { return r.ID == s.Current })
	if i < 1 {
		return nil
	}
	return &s.Releases[i-1]
}

// take makes a release current that comes after the one that was, and forgets those
// that are further back than keep. The appliance's own is kept: its store is there
// whatever happens.
func (s *State) take(r Release, keep int) {
	left := s.release(s.Current)
	var order []Release
	for _, o := range s.Releases {
		if o.ID != r.ID && o.ID != s.Current {
			order = append(order, o)
		}
	}
	if left != nil && left.ID != r.ID {
		order = append(order, *left)
	}
	order = append(order, r)
	far := len(order) - 1 - keep
	s.Releases = nil
	for i, o := range order {
		if i >= far || o.ID == "" {
			s.Releases = append(s.Releases, o)
		}
	}
	s.Current, s.SetsPending = r.ID, true
}

// drop forgets a store, and the releases that it had.
func (s *State) drop(id digest.Digest) {
	if !slices.Contains(s.Removed, id) {
		s.Removed = append(s.Removed, id)
	}
	s.Stores = slices.DeleteFunc(s.Stores, func(o Store) bool { return o.ID == id })
	s.Releases = slices.DeleteFunc(s.Releases, func(r Release) bool { return r.Store == id && r.ID != s.Current })
}

// freeSlot is the first of the slots that no store has and where nothing is mounted;
// "" if there is none.
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

// ErrNotAttached says that no attached store has a name.
var ErrNotAttached = errors.New("no such store is attached")

// find tells which store somebody means: by its slot, its name, or the beginning of
// its digest.
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
	return Store{}, fmt.Errorf("%q: %w, but %d: %s", name, ErrNotAttached, len(found), strings.Join(ids, ", "))
}

// Short is how a digest is shown to people.
func Short(d digest.Digest) string {
	if len(d) < len("sha256:")+12 {
		return d.String()
	}
	return d.Encoded()[:12]
}
