package pinset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
)

// StoreContent is what a store of a node has, in short: what is needed to plan deltas for the node elsewhere.
type StoreContent struct {
	// Base identifies the store. The digest of its file is "" if the node does not know it.
	Base
	// ReleaseID is that of its lock.
	ReleaseID
	Platform Platform `json:"platform"`
	// Current means that the sets of its release count on the node.
	Current bool `json:"current,omitempty"`
	// Wish is that of its lock: see [Lock.Wish].
	Wish digest.Digest `json:"wish"`
	// Program is the pinbox-node of its release; nil if it is unknown.
	Program *Program `json:"program,omitempty"`
	// Artifacts are the pins of the OCI artifacts of its lock, sorted.
	Artifacts []string `json:"artifacts,omitempty"`
	// Layers that are in the store itself, sorted.
	Layers []StoredLayer `json:"layers"`
}

// StoredLayer is a layer in a store. What a lock does not know of it is zero, as there.
type StoredLayer struct {
	// ID depends on the content of the layer and on the layers below it.
	ID             string `json:"id"`
	UnpackedSize   int64  `json:"unpackedSize,omitempty"`
	Inodes         int64  `json:"inodes,omitempty"`
	RootAttributes string `json:"rootAttributes,omitempty"`
}

// Wish is a digest of what a lock asks for: the name of its appliance, its sets, and the pins of its images. Two
// releases with the same one differ at most in number, in pinbox-node, and in what was not known of layers.
func (l Lock) Wish() digest.Digest {
	l = l.canonical()
	text, _ := json.Marshal(struct { // texts alone: there is no error
		Name string      `json:"name"`
		Sets []LockedSet `json:"sets"`
		Pins []string    `json:"pins"`
	}{l.Name, l.Sets, l.Pins()})
	return digest.FromBytes(text)
}

// MaxContentLayers is the number of layers that all stores of a node may have, as in the limits of a store.
const MaxContentLayers = 300_000

// CheckContents returns an error for contents that no node writes: the error names the store and the field.
func CheckContents(stores []StoreContent) error {
	layers, current := 0, 0
	for i, s := range stores {
		if err := s.check(); err != nil {
			return fmt.Errorf("content[%d]: %w", i, err)
		}
		layers += len(s.Layers)
		if s.Current {
			current++
		}
	}
	switch {
	case layers > MaxContentLayers:
		return fmt.Errorf("content: %d layers, more than %d", layers, MaxContentLayers)
	case current > 1:
		return errors.New("content: several stores are current")
	}
	return nil
}

func (s StoreContent) check() error {
	if err := s.Base.validate(); err != nil {
		return err
	}
	if err := s.ReleaseID.Check(); err != nil {
		return err
	}
	if err := s.Platform.Validate(); err != nil {
		return err
	}
	if err := CheckDigest("wish", s.Wish); err != nil {
		return err
	}
	if err := checkPrintable("artifacts", s.Artifacts...); err != nil {
		return err
	}
	if s.Program != nil {
		if err := s.Program.Check(); err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	for i, l := range s.Layers {
		switch {
		case !ValidID(l.ID):
			return fmt.Errorf("layers[%d]: id %q: not the ID of a layer", i, l.ID)
		case l.UnpackedSize < 0 || l.Inodes < 0:
			return fmt.Errorf("layers[%d]: negative numbers", i)
		case l.RootAttributes != "" && !rootAttributes.MatchString(l.RootAttributes):
			return fmt.Errorf("layers[%d]: rootAttributes %q: not mode, user and group, such as 0755:0:0", i, l.RootAttributes)
		}
	}
	return nil
}

// CurrentContent returns the store whose sets count on the node; the first one if none says so, and nil if there is
// none.
func CurrentContent(stores []StoreContent) *StoreContent {
	if i := slices.IndexFunc(stores, func(s StoreContent) bool { return s.Current }); i >= 0 {
		return &stores[i]
	}
	if len(stores) > 0 {
		return &stores[0]
	}
	return nil
}
