package pinset

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
)

// LockVersion is the version of the lock's format.
const LockVersion = 1

// ErrBadLock says that a file is no lock that this version can read.
var ErrBadLock = errors.New("not a pinbox lock")

// Lock says exactly what an appliance holds: enough to build the same bytes
// again, and for a node to know what it lacks without asking a registry.
type Lock struct {
	Version  int           `json:"version"`
	Platform Platform      `json:"platform"`
	Sets     []LockedSet   `json:"sets"`
	Images   []LockedImage `json:"images"`
}

// LockedSet is a set as it was when the lock was made.
type LockedSet struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Images are pin strings, sorted.
	Images []string `json:"images"`
}

// LockedImage is a resolved image.
type LockedImage struct {
	// Pin is the string that CRI-O pins: the image's name in the store.
	Pin string `json:"pin"`
	// Tags are names without a digest that the image was asked for by: the store has
	// it under them too, sorted.
	Tags []string `json:"tags,omitempty"`
	// Index is the digest of the index, if the pin names one.
	Index digest.Digest `json:"index,omitempty"`
	// Manifest is the digest of the manifest for the lock's platform.
	Manifest digest.Digest `json:"manifest"`
	// Config is the digest of the image's configuration: its ID in the store.
	Config digest.Digest `json:"config"`
	// From tells the inputs that asked for the image, as "PinnedImageSet/worker".
	From []string `json:"from"`
	// Layers from the base up.
	Layers []LockedLayer `json:"layers"`
}

// LockedLayer is a layer of an image.
type LockedLayer struct {
	// Digest of the blob as the registry has it.
	Digest digest.Digest `json:"digest"`
	// Size of the blob in bytes.
	Size int64 `json:"size"`
	// DiffID is the digest of the uncompressed tar stream.
	DiffID digest.Digest `json:"diffID"`
	// UnpackedSize is the length of that stream in bytes, 0 while unknown.
	UnpackedSize int64 `json:"unpackedSize,omitempty"`
	// Inodes that the unpacked layer takes, 0 while unknown.
	Inodes int64 `json:"inodes,omitempty"`
	// RootAttributes is what layers above inherit, mode in octal, user and group, as 0755:0:0; ""
	// while unknown.
	RootAttributes string `json:"rootAttributes,omitempty"`
	// MediaType of the blob.
	MediaType string `json:"mediaType"`
}

// Platform is "os/architecture" or "os/architecture/variant", in Go's words.
type Platform string

// Split gives the parts of the platform.
func (p Platform) Split() (os, arch, variant string) {
	os, arch, _ = strings.Cut(string(p), "/")
	arch, variant, _ = strings.Cut(arch, "/")
	return os, arch, variant
}

// Architectures that CRI-O runs on, as Go names them.
func Architectures() []string { return []string{"amd64", "arm64", "ppc64le", "riscv64", "s390x"} }

// Validate says what is wrong with the platform's form.
func (p Platform) Validate() error {
	known := Architectures()
	if os, arch, _ := p.Split(); os != "linux" || !slices.Contains(known, arch) {
		return fmt.Errorf("platform %q: CRI-O runs on linux/%s", string(p), strings.Join(known, ", linux/"))
	}
	return nil
}

// Encode writes the lock in its canonical form: equal locks, equal bytes.
func (l Lock) Encode(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(l.canonical())
}

func (l Lock) canonical() Lock {
	l.Sets, l.Images = slices.Clone(l.Sets), slices.Clone(l.Images)
	slices.SortFunc(l.Sets, func(a, b LockedSet) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Images, func(a, b LockedImage) int { return strings.Compare(a.Pin, b.Pin) })
	return l
}

// DecodeLock reads a lock. Unknown fields and other versions are errors, and so is any
// name, digest or size that no build writes: the error names the record and the field.
func DecodeLock(r io.Reader) (Lock, error) {
	var l Lock
	err := Decode(r, LockVersion, &l)
	if err == nil {
		err = l.validate()
	}
	if err != nil {
		return Lock{}, fmt.Errorf("%w: %w", ErrBadLock, err)
	}
	return l, nil
}

func (l Lock) validate() error {
	if err := l.Platform.Validate(); err != nil {
		return err
	}
	for i, set := range l.Sets {
		if err := set.validate(); err != nil {
			return fmt.Errorf("sets[%d]: %w", i, err)
		}
	}
	for i, img := range l.Images {
		if err := img.validate(); err != nil {
			return fmt.Errorf("images[%d]: %w", i, err)
		}
	}
	return nil
}

func (l LockedSet) validate() error {
	if !ValidName(l.Name) {
		return fmt.Errorf("name %q: not a valid name of a PinnedImageSet", l.Name)
	}
	if _, err := l.Set(); err != nil {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	return nil
}

func (l LockedImage) validate() error {
	if _, err := ParseImage(l.Pin); err != nil {
		return fmt.Errorf("pin: %w", err)
	}
	for _, tag := range l.Tags {
		if ref, err := ParseReference(tag); err != nil || ref.TagName() != tag {
			return fmt.Errorf("tag %q: %w", tag, cmp.Or(err, ErrBadName))
		}
	}
	if l.Index != "" {
		if err := CheckDigest("index", l.Index); err != nil {
			return err
		}
	}
	if err := cmp.Or(CheckDigest("manifest", l.Manifest), CheckDigest("config", l.Config)); err != nil {
		return err
	}
	for i, layer := range l.Layers {
		if err := layer.validate(); err != nil {
			return fmt.Errorf("layers[%d]: %w", i, err)
		}
	}
	return nil
}

func (l LockedLayer) validate() error {
	if err := cmp.Or(CheckDigest("digest", l.Digest), CheckDigest("diffID", l.DiffID)); err != nil {
		return err
	}
	for _, count := range []struct {
		field string
		n     int64
	}{{"size", l.Size}, {"unpackedSize", l.UnpackedSize}, {"inodes", l.Inodes}} {
		if count.n < 0 {
			return fmt.Errorf("%s %d: negative", count.field, count.n)
		}
	}
	return nil
}

// ByTag finds the images that were asked for by a tag, by that name.
func (l Lock) ByTag() map[string]Image {
	images := map[string]Image{}
	for _, img := range l.Images {
		for _, tag := range img.Tags {
			if pinned, err := ParseImage(img.Pin); err == nil {
				images[tag] = pinned
			}
		}
	}
	return images
}

// Lock gives the set as a lock has it.
func (s Set) Lock() LockedSet {
	l := LockedSet{Name: s.Name, Labels: s.Labels}
	for _, img := range Union(s) {
		l.Images = append(l.Images, img.String())
	}
	return l
}

// Set gives the set that was locked.
func (l LockedSet) Set() (Set, error) {
	s := Set{Name: l.Name, Labels: l.Labels}
	for _, pin := range l.Images {
		img, err := ParseImage(pin)
		if err != nil {
			return Set{}, err
		}
		s.Images = append(s.Images, img)
	}
	return s, nil
}

// Totals of a lock, each blob and each unpacked layer counted once.
type Totals struct {
	Images       int   `json:"images"`
	Layers       int   `json:"layers"`                 // different blobs
	Bytes        int64 `json:"bytes"`                  // of those blobs
	TotalLayers  int   `json:"totalLayers"`            // as the images count them
	TotalBytes   int64 `json:"totalBytes"`             // likewise
	UnpackedSize int64 `json:"unpackedSize,omitempty"` // of the different layers; 0 while unknown
}

// Totals adds up what the lock holds.
func (l Lock) Totals() Totals {
	t := Totals{Images: len(l.Images)}
	seen := map[digest.Digest]bool{}
	for _, img := range l.Images {
		for _, layer := range img.Layers {
			t.TotalLayers++
			t.TotalBytes += layer.Size
			if !seen[layer.Digest] {
				seen[layer.Digest] = true
				t.Layers++
				t.Bytes += layer.Size
				t.UnpackedSize += layer.UnpackedSize
			}
		}
	}
	return t
}
