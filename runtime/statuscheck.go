package runtime

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

// check refuses values that no pass writes: later passes and messages use those of the last status.
func (s Status) check() error {
	if err := checkTexts("node", append([]string{s.Node, s.Runtime, string(s.Owner)}, s.Pools...)...); err != nil {
		return err
	}
	if !slices.Contains([]Owner{"", Pinbox, MCO}, s.Owner) {
		return fmt.Errorf("owner %q: unknown", s.Owner)
	}
	for i, c := range s.Conditions {
		if err := checkTexts("type", c.Type, c.Status, c.Reason); err != nil {
			return fmt.Errorf("conditions[%d]: %w", i, err)
		}
	}
	for i, set := range s.Sets {
		if err := set.check(); err != nil {
			return fmt.Errorf("sets[%d]: %w", i, err)
		}
	}
	for i, img := range s.Images {
		if err := img.check(); err != nil {
			return fmt.Errorf("images[%d]: %w", i, err)
		}
	}
	for i, r := range s.Releases {
		if err := errors.Join(checkTexts("state", r.State, r.Digest), r.ReleaseID.Check()); err != nil {
			return fmt.Errorf("releases[%d]: %w", i, err)
		}
	}
	for i, store := range s.Stores {
		if err := store.check(); err != nil {
			return fmt.Errorf("stores[%d]: %w", i, err)
		}
	}
	if err := s.Cluster.check(); err != nil {
		return err
	}
	if err := s.OwnStore.check(); err != nil {
		return fmt.Errorf("ownStore: %w", err)
	}
	if err := s.Program.check(); err != nil {
		return fmt.Errorf("program: %w", err)
	}
	for i, img := range append(s.StoreImages, s.SetAside...) {
		if len(img.Names) == 0 {
			return fmt.Errorf("storeImages[%d]: names: none", i)
		}
		if err := checkTexts("names", img.Names...); err != nil {
			return fmt.Errorf("storeImages[%d]: %w", i, err)
		}
	}
	if p := s.Progress; p != nil && min(int64(p.Images), int64(p.OfImages), p.Bytes, p.OfBytes) < 0 {
		return fmt.Errorf("progress: %+v: negative", *p)
	}
	for i, space := range s.Space {
		if err := checkTexts("path", space.Path); err != nil {
			return fmt.Errorf("space[%d]: %w", i, err)
		}
		if min(space.Bytes, space.Free) < 0 {
			return fmt.Errorf("space[%d]: %+v: negative", i, space)
		}
	}
	if err := s.Totals.check(); err != nil {
		return err
	}
	if err := wanted.Check(s.Wanted); err != nil {
		return fmt.Errorf("wanted: %w", err)
	}
	if err := checkTexts("latePulls", slices.Collect(maps.Keys(s.LatePulls))...); err != nil {
		return err
	}
	return checkTexts("unpinned", s.Unpinned...)
}

func (t Totals) check() error {
	for class, n := range t.PullFailures {
		if !slices.Contains(classes, class) || n < 0 {
			return fmt.Errorf("totals: pullFailures: %q: %d", class, n)
		}
	}
	if t.PulledBytes < 0 {
		return fmt.Errorf("totals: pulledBytes %d: negative", t.PulledBytes)
	}
	return nil
}

func (s SetStatus) check() error {
	if min(s.Images, s.Pinned, s.Missing) < 0 {
		return fmt.Errorf("images %d, pinned %d, missing %d: negative", s.Images, s.Pinned, s.Missing)
	}
	return checkTexts("name", s.Name, s.CurrentGeneration, s.DesiredGeneration, s.LastFailedGeneration, s.Store)
}

func (i ImageStatus) check() error {
	if _, err := pinset.ParseImage(i.Name); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	switch {
	case !slices.Contains([]State{Unknown, Missing, Pulling, Present, Pinned}, i.State):
		return fmt.Errorf("state %q: unknown", i.State)
	case i.ErrorClass != "" && !slices.Contains(classes, i.ErrorClass):
		return fmt.Errorf("errorClass %q: unknown", i.ErrorClass)
	case i.Bytes < 0:
		return fmt.Errorf("bytes %d: negative", i.Bytes)
	}
	return checkTexts("sets", i.Sets...)
}

func (s StoreStatus) check() error {
	if s.Digest != "" {
		if err := pinset.CheckDigest("digest", digest.Digest(s.Digest)); err != nil {
			return err
		}
	}
	switch {
	case !slices.Contains([]StoreState{StoreMounted, StoreUnavailable, StoreRefused, StoreComposing}, s.State):
		return fmt.Errorf("state %q: unknown", s.State)
	case s.Images < 0 || s.Bytes < 0:
		return fmt.Errorf("images %d, bytes %d: negative", s.Images, s.Bytes)
	case s.Progress != nil && min(s.Progress.Bytes, s.Progress.OfBytes) < 0:
		return fmt.Errorf("progress: %+v: negative", *s.Progress)
	}
	if err := checkTexts("slot", s.Slot, s.Path); err != nil {
		return err
	}
	if err := s.ReleaseID.Check(); err != nil {
		return err
	}
	return s.Verity.check()
}

func (v *VerityStatus) check() error {
	if v != nil && !slices.Contains([]VerityState{Verified, Unverified, Corrupted}, v.State) {
		return fmt.Errorf("verity: state %q: unknown", v.State)
	}
	return nil
}

func (p *ProgramStatus) check() error {
	if p == nil {
		return nil
	}
	for _, program := range []pinset.Program{p.Running, p.Current, p.Own} {
		if program == (pinset.Program{}) {
			continue
		}
		if err := program.Check(); err != nil {
			return err
		}
	}
	return nil
}

// checkTexts refuses texts that would change a terminal.
func checkTexts(field string, texts ...string) error {
	for _, text := range texts {
		if !pinset.Printable(text) {
			return fmt.Errorf("%s: %q: control characters", field, text)
		}
	}
	return nil
}
