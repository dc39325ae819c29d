package stores

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

// check refuses invalid digests and names, since they become paths.
func (s State) check() error {
	ids, slots := map[digest.Digest]bool{}, map[string]bool{}
	for i, o := range s.Stores {
		if err := o.check(); err != nil {
			return fmt.Errorf("stores[%d]: %w", i, err)
		}
		if ids[o.ID] || slots[o.Slot] || o.Slot == "" {
			return fmt.Errorf("stores[%d]: id %s, slot %q: another store has one of them, or it has no slot", i, o.ID, o.Slot)
		}
		ids[o.ID], slots[o.Slot] = true, true
	}
	for i, r := range s.Releases {
		if err := r.check(); err != nil {
			return fmt.Errorf("releases[%d]: %w", i, err)
		}
	}
	if s.Compaction != nil {
		if err := s.Compaction.check(); err != nil {
			return fmt.Errorf("compaction: %w", err)
		}
	}
	if s.Refused != nil {
		if err := pinset.CheckDigest("id", s.Refused.ID); err != nil {
			return fmt.Errorf("refused: %w", err)
		}
		if err := s.Refused.ReleaseID.Check(); err != nil {
			return fmt.Errorf("refused: %w", err)
		}
	}
	if err := errors.Join(checkDigests("removed", s.Removed), checkDigests("formerSets", s.FormerSets)); err != nil {
		return err
	}
	for _, name := range s.SetsToRemove {
		if !isName(name) {
			return fmt.Errorf("setsToRemove: %q: not the name of a file", name)
		}
	}
	if err := optional("current", s.Current); err != nil {
		return err
	}
	return checkText("selinuxContext", s.SELinuxContext)
}

func (c Compaction) check() error {
	if len(c.Replaces) == 0 {
		return errors.New("replaces: empty")
	}
	if len(c.GraphRoots) == 0 {
		return errors.New("graphRoots: empty")
	}
	if err := c.Store.check(); err != nil {
		return err
	}
	if err := checkRoots("graphRoots", c.GraphRoots); err != nil {
		return err
	}
	return checkDigests("replaces", c.Replaces)
}

func checkRoots(field string, roots []string) error {
	for _, root := range roots {
		if !filepath.IsAbs(root) {
			return fmt.Errorf("%s: %q: not an absolute path", field, root)
		}
	}
	return nil
}

// checkText refuses characters that would change a terminal, or end a mount option.
func checkText(field, text string) error {
	if !pinset.Printable(text) || strings.ContainsAny(text, `"\\`) {
		return fmt.Errorf("%s %q: quotes, backslashes or control characters", field, text)
	}
	return nil
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
	case o.Size > math.MaxInt64-o.Offset || o.Images < 0:
		return fmt.Errorf("size %d, offset %d, images %d: too large, or negative", o.Size, o.Offset, o.Images)
	case o.Path != "" && !filepath.IsAbs(o.Path), o.Path == "" && (o.Medium || o.Offset > 0):
		return fmt.Errorf("path %q: not an absolute path", o.Path)
	case o.Token != "" && !pinset.ValidID(o.Token):
		return fmt.Errorf("token %q: not 64 hexadecimal digits", o.Token)
	}
	if err := optional("thin", o.Thin); err != nil {
		return err
	}
	if err := o.ReleaseID.Check(); err != nil {
		return err
	}
	if err := checkRoots("detaching", o.Detaching); err != nil || o.Verity.IsZero() {
		return err
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
	if err := optional("thin", r.Thin); err != nil {
		return err
	}
	if err := r.ReleaseID.Check(); err != nil {
		return err
	}
	if r.Program != nil {
		if err := r.Program.Check(); err != nil {
			return fmt.Errorf("program: %w", err)
		}
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
