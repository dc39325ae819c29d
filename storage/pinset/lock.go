package pinset

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/fault"
)

// LockVersion is the version of the lock's format.
const LockVersion = 1

// ErrBadLock is the error for a lock that this version cannot read.
var ErrBadLock = fault.New(fault.Input, "not a pinbox lock",
	"name a lock that this version of pinbox wrote")

// rootAttributes are a mode in octal, a user and a group: FormatRootAttributes in storage/compose.
var rootAttributes = regexp.MustCompile(`^[0-7]{4}:[0-9]{1,10}:[0-9]{1,10}$`)

// Lock lists the exact content of an appliance, so that the same bytes can be built again, and so
// that a node can compute which layers it lacks without contacting a registry.
type Lock struct {
	Version int `json:"version"`
	ReleaseID
	Platform Platform      `json:"platform"`
	Sets     []LockedSet   `json:"sets"`
	Images   []LockedImage `json:"images"`
	// Artifacts are the OCI artifacts of the sets.
	Artifacts []LockedArtifact `json:"artifacts,omitempty"`
	// Program is the pinbox-node of the release; nil if it is unknown. The store of a delta has it only if a base
	// has another one.
	Program *Program `json:"program,omitempty"`
}

// LockedSet is a set at the time when the lock was made.
type LockedSet struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Images are pins, sorted.
	Images []string `json:"images"`
}

// LockedImage is a resolved image.
type LockedImage struct {
	// Pin is the image's name in the store, which CRI-O pins.
	Pin string `json:"pin"`
	// Tags are the names without a digest by which the inputs refer to the image, sorted. They
	// are names of the image in the store, too.
	Tags []string `json:"tags,omitempty"`
	// Index is the digest of the index, if the pin names one.
	Index digest.Digest `json:"index,omitempty"`
	// Manifest is the digest of the manifest for the lock's platform.
	Manifest digest.Digest `json:"manifest"`
	// Config is the digest of the image's configuration: its ID in the store.
	Config digest.Digest `json:"config"`
	// From lists the inputs that contain the image, such as "PinnedImageSet/worker".
	From []string `json:"from"`
	// Volume means that a pod uses the image as an image volume.
	Volume bool `json:"volume,omitempty"`
	// Layers, the lowest first. Images may have layers in common: see Shared.
	Layers []*LockedLayer `json:"layers"`
}

// LockedLayer is a layer of an image.
type LockedLayer struct {
	// Digest of the blob in the registry.
	Digest digest.Digest `json:"digest"`
	// Size of the blob in bytes.
	Size int64 `json:"size"`
	// DiffID is the digest of the uncompressed tar stream.
	DiffID digest.Digest `json:"diffID"`
	// UnpackedSize is the length of that stream in bytes, 0 if unknown.
	UnpackedSize int64 `json:"unpackedSize,omitempty"`
	// Inodes is the number of inodes of the unpacked layer, 0 if unknown.
	Inodes int64 `json:"inodes,omitempty"`
	// RootAttributes are the mode in octal, the user and the group of the layer's root
	// directory, such as 0755:0:0, which layers above inherit; "" if unknown.
	RootAttributes string `json:"rootAttributes,omitempty"`
	// MediaType of the blob.
	MediaType string `json:"mediaType"`
}

// Platform is "os/architecture" or "os/architecture/variant", with the names of GOOS and GOARCH.
type Platform string

// Split returns the parts of the platform.
func (p Platform) Split() (os, arch, variant string) {
	os, arch, _ = strings.Cut(string(p), "/")
	arch, variant, _ = strings.Cut(arch, "/")
	return os, arch, variant
}

// Architectures returns the architectures that CRI-O runs on, by their names in GOARCH.
func Architectures() []string { return []string{"amd64", "arm64", "ppc64le", "riscv64", "s390x"} }

// Validate returns an error unless CRI-O runs on the platform.
func (p Platform) Validate() error {
	known := Architectures()
	if os, arch, _ := p.Split(); os != "linux" || !slices.Contains(known, arch) {
		return fmt.Errorf("platform %q: CRI-O runs on linux/%s", string(p), strings.Join(known, ", linux/"))
	}
	return nil
}

// Encode writes the lock in its canonical form: equal locks give equal bytes. It holds the text of one image at a time.
// The error is ErrLargeLock for a lock that DecodeLock would refuse.
func (l Lock) Encode(w io.Writer) error {
	l = l.canonical()
	if err := l.checkLists(); err != nil {
		return err
	}
	images := l.Images
	if len(images) > 0 {
		l.Images = nil
	}
	var text bytes.Buffer
	if err := indented(&text, "").Encode(l); err != nil {
		return err
	}
	const none = "\n  \"images\": null"
	head, tail, _ := strings.Cut(text.String(), none)
	if len(images) == 0 {
		_, err := w.Write(text.Bytes())
		return err
	}
	out := bufio.NewWriter(w)
	out.WriteString(head + strings.TrimSuffix(none, "null")) // Flush returns its error, and those of the others
	size := text.Len()
	before, each := "[\n    ", indented(&text, "    ")
	for _, img := range images {
		text.Reset()
		if err := each.Encode(img); err != nil {
			return err
		}
		if err := checkElement(text.Len(), "image %s with %d tags and %d layers", img.Pin, len(img.Tags),
			len(img.Layers)); err != nil {
			return err
		}
		if size += text.Len() + len(before); size > MaxDocumentBytes {
			return fmt.Errorf("%w: the limit is %d MiB", ErrLargeLock, MaxDocumentBytes>>20)
		}
		out.WriteString(before)
		out.Write(bytes.TrimSuffix(text.Bytes(), []byte("\n")))
		before = ",\n    "
	}
	out.WriteString("\n  ]" + tail)
	return out.Flush()
}

// checkLists checks the elements of the lists that Encode does not write one by one.
func (l Lock) checkLists() error {
	var text bytes.Buffer
	each := indented(&text, "    ")
	for _, s := range l.Sets {
		text.Reset()
		if err := each.Encode(s); err != nil {
			return err
		}
		if err := checkElement(text.Len(), "set %s with %d images", s.Name, len(s.Images)); err != nil {
			return err
		}
	}
	for _, a := range l.Artifacts {
		text.Reset()
		if err := each.Encode(a); err != nil {
			return err
		}
		if err := checkElement(text.Len(), "artifact %s with %d blobs", a.Pin, len(a.Blobs)); err != nil {
			return err
		}
	}
	return nil
}

// indented returns an encoder of the lock's form. All lines but the first begin with prefix.
func indented(w io.Writer, prefix string) *json.Encoder {
	enc := json.NewEncoder(w)
	enc.SetIndent(prefix, "  ")
	enc.SetEscapeHTML(false)
	return enc
}

func (l Lock) canonical() Lock {
	l.Sets, l.Images = slices.Clone(l.Sets), slices.Clone(l.Images)
	slices.SortFunc(l.Sets, func(a, b LockedSet) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(l.Images, func(a, b LockedImage) int { return strings.Compare(a.Pin, b.Pin) })
	l.Artifacts = slices.Clone(l.Artifacts)
	slices.SortFunc(l.Artifacts, func(a, b LockedArtifact) int { return strings.Compare(a.Pin, b.Pin) })
	return l
}

// DecodeLock reads a lock of at most 64 MiB. Unknown fields and other versions are errors, and so is
// any name, digest or size that no build writes: the error names the record and the field. The version
// is the first field.
func DecodeLock(r io.Reader) (Lock, error) {
	l, shared := Lock{Version: LockVersion}, Shared{}
	err := decodeObject(r, LockVersion, func(name string, s *stream) error {
		switch name {
		case "name":
			return s.value(name, &l.Name)
		case "release":
			return s.value(name, &l.Number)
		case "platform":
			return s.value(name, &l.Platform)
		case "sets":
			return list(s, name, &l.Sets, nil)
		case "images":
			return list(s, name, &l.Images, func(img *LockedImage) { img.Layers = shared.Layers(img.Layers) })
		case "artifacts":
			return list(s, name, &l.Artifacts, nil)
		case "program":
			return s.value(name, &l.Program)
		}
		return unknownField(name)
	})
	if err == nil {
		err = l.validate()
	}
	if OtherVersion(err) {
		return Lock{}, fmt.Errorf("lock of %w", err)
	}
	if err != nil {
		return Lock{}, fmt.Errorf("%w: %w", ErrBadLock, err)
	}
	return l, nil
}

// validate checks what concerns the whole lock or more than one entry.
func (l Lock) validate() error {
	if err := l.ReleaseID.Check(); err != nil {
		return err
	}
	if err := l.Platform.Validate(); err != nil {
		return err
	}
	if l.Program != nil {
		if err := l.Program.Check(); err != nil {
			return fmt.Errorf("program: %w", err)
		}
	}
	names, pins := map[string]bool{}, map[string]bool{}
	for i, set := range l.Sets {
		if names[set.Name] {
			return fmt.Errorf("sets[%d]: name %q: repeated", i, set.Name)
		}
		names[set.Name] = true
	}
	for i, img := range l.Images {
		if pins[img.Pin] {
			return fmt.Errorf("images[%d]: pin %s: repeated", i, img.Pin)
		}
		pins[img.Pin] = true
	}
	for i, a := range l.Artifacts {
		if pins[a.Pin] {
			return fmt.Errorf("artifacts[%d]: pin %s: repeated", i, a.Pin)
		}
		pins[a.Pin] = true
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
	for key, value := range l.Labels {
		if err := checkPrintable("labels", key, value); err != nil {
			return err
		}
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
	if err := CheckDigest("manifest", l.Manifest); err != nil {
		return err
	}
	if err := CheckDigest("config", l.Config); err != nil {
		return err
	}
	if err := checkPrintable("from", l.From...); err != nil {
		return err
	}
	for i, layer := range l.Layers {
		if err := layer.validate(); err != nil {
			return fmt.Errorf("layers[%d]: %w", i, err)
		}
	}
	return nil
}

func (l *LockedLayer) validate() error {
	if l == nil {
		return errors.New("null")
	}
	if err := l.Digest.Validate(); err != nil { // it may be by another algorithm, as the manifest names it
		return fmt.Errorf("digest %q: %w", l.Digest, err)
	}
	if err := CheckDigest("diffID", l.DiffID); err != nil {
		return err
	}
	if err := checkPrintable("mediaType", l.MediaType); err != nil {
		return err
	}
	if l.RootAttributes != "" && !rootAttributes.MatchString(l.RootAttributes) {
		return fmt.Errorf("rootAttributes %q: not mode, user and group, such as 0755:0:0", l.RootAttributes)
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

// Pins returns the pins of the images and artifacts, sorted.
func (l Lock) Pins() (all []string) {
	for _, img := range l.Images {
		all = append(all, img.Pin)
	}
	for _, a := range l.Artifacts {
		all = append(all, a.Pin)
	}
	slices.Sort(all)
	return all
}

// ByTag returns the images that the inputs refer to by a tag, by that name.
func (l Lock) ByTag() map[string]Image {
	images := map[string]Image{}
	for _, img := range l.Images {
		for _, tag := range img.Tags {
			if pinned, err := ParseImage(img.Pin); err == nil {
				images[tag] = pinned
			}
		}
	}
	for _, a := range l.Artifacts {
		for _, tag := range a.Tags {
			if pinned, err := ParseImage(a.Pin); err == nil {
				images[tag] = pinned
			}
		}
	}
	return images
}

// Lock returns the set in the form of the lock.
func (s Set) Lock() LockedSet {
	l := LockedSet{Name: s.Name, Labels: s.Labels}
	for _, img := range Union(s) {
		l.Images = append(l.Images, img.String())
	}
	return l
}

// Set returns the set that was locked.
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

// Totals are sums over the images of a lock.
type Totals struct {
	Images       int   `json:"images"`
	Layers       int   `json:"layers"`                 // each blob counted once
	Bytes        int64 `json:"bytes"`                  // of these blobs
	TotalLayers  int   `json:"totalLayers"`            // a shared blob counted once for each image
	TotalBytes   int64 `json:"totalBytes"`             // of these blobs
	UnpackedSize int64 `json:"unpackedSize,omitempty"` // of the tar streams of Layers; 0 if unknown
	// Artifacts is the number of OCI artifacts, and ArtifactBytes the size of their blobs, each counted once.
	Artifacts     int   `json:"artifacts,omitempty"`
	ArtifactBytes int64 `json:"artifactBytes,omitempty"`
}

// Totals returns the sums over the images of the lock.
func (l Lock) Totals() Totals {
	t := Totals{Images: len(l.Images), Artifacts: len(l.Artifacts)}
	for _, b := range ArtifactBlobs(l.Artifacts) {
		t.ArtifactBytes += b.Size
	}
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
