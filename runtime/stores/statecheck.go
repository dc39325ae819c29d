package stores

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// check refuses invalid digests and names, since they become paths.
func (s State) check() error {
	for i, o := range s.Stores {
		if err := o.check(); err != nil {
			return fmt.Errorf("stores[%d]: %w", i, err)
		}
	}
	for i, r := range s.Releases {
		if err := r.check(); err != nil {
			return fmt.Errorf("releases[%d]: %w", i, err)
		}
	}
	if s.Compaction != nil {
		if err := s.Compaction.Store.check(); err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
		if err := checkDigests("compaction: replaces", s.Compaction.Replaces); err != nil {
			return err
		}
	}
	if err := checkDigests("removed", s.Removed); err != nil {
		return err
	}
	for _, name := range s.SetsToRemove {
		if !isName(name) {
			return fmt.Errorf("setsToRemove: %q: not the name of a file", name)
		}
	}
	return optional("current", s.Current)
}

func (o Store) check() error {
	if err := pinset.CheckDigest("id", o.ID); err != nil {
		return err
	}
	switch {
	case !isName(o.Slot) && o.Slot != "":
		return fmt.Errorf("slot %q: not a name", o.Slot)
	case o.Size < 0 || o.Offset < 0:
		return fmt.Errorf("size %d, offset %d: negative", o.Size, o.Offset)
	case o.Path != "" && !filepath.IsAbs(o.Path):
		return fmt.Errorf("path %q: not an absolute path", o.Path)
	case o.Token != "" && !pinset.ValidID(o.Token):
		return fmt.Errorf("token %q: not 64 hexadecimal digits", o.Token)
	case o.Verity.IsZero():
		return nil
	}
	if err := o.Verity.Validate(); err != nil {
		return fmt.Errorf("verity: %w", err)
	}
	return nil
}

func (r Release) check() error {
	if err := optional("id", r.ID); err != nil {
		return err
	}
	for name := range r.Sets {
		if !isName(name) {
			return fmt.Errorf("sets: %q: not the name of a file", name)
		}
	}
	return optional("store", r.Store)
}

// optional permits an empty digest: the appliance's own store has none.
func optional(field string, d digest.Digest) error {
	if d == "" {
		return nil
	}
	return pinset.CheckDigest(field, d)
}

func checkDigests(field string, all []digest.Digest) error {
	for _, d := range all {
		if err := pinset.CheckDigest(field, d); err != nil {
			return err
		}
	}
	return nil
}

// isName reports whether name is the name of a file without a folder.
func isName(name string) bool {
	return filepath.IsLocal(name) && !strings.Contains(name, "/") && name != "."
}
