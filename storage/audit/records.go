package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// layer checks the record of a layer.
func (a *auditor) layer(l layout.Layer) error {
	if err := CheckLayer(l); err != nil {
		return err
	}
	if _, twice := a.layers[l.ID]; twice {
		return invalid("layer %s: it has two records", l.ID)
	}
	a.layers[l.ID] = l.Parent
	a.order = append(a.order, l.ID)
	return nil
}

// CheckLayer checks that the ID of a layer is that of its content, on the layers below it.
func CheckLayer(l layout.Layer) error {
	if l.UncompressedDigest == "" || layout.LayerID(l.Parent, l.UncompressedDigest) != l.ID {
		return invalid("the ID of layer %q does not match its content", l.ID)
	}
	return nil
}

// image checks the record of an image and the image's documents.
func (a *auditor) image(i layout.Image) error {
	if err := a.checkImage(i); err != nil {
		return fmt.Errorf("image %s: %w", i.ID, err)
	}
	return nil
}

func (a *auditor) checkImage(i layout.Image) error {
	if _, twice := a.images[i.ID]; twice {
		return invalid("it has two records")
	}
	d := imageDocuments{id: i.ID, manifests: map[string]bool{}, indexes: map[string][]digest.Digest{}}
	for _, key := range i.BigDataNames {
		content, err := Document(a.files, i, key)
		if err != nil {
			return err
		}
		if a.bytes -= int64(len(content)); a.bytes < 0 {
			return fmt.Errorf("%w: its documents have more than %d MiB", layout.ErrTooLarge, layout.MaxDocumentsBytes>>20)
		}
		if err := d.add(key, content); err != nil {
			return fmt.Errorf("document %q: %w", key, err)
		}
	}
	if len(i.BigDataNames) != len(i.BigDataDigests) || len(i.BigDataNames) != len(i.BigDataSizes) {
		return invalid("the names, sizes and digests of its documents differ")
	}
	if err := d.complete(i); err != nil {
		return err
	}
	for n, id := range d.chain {
		parent := ""
		if n > 0 {
			parent = d.chain[n-1]
		}
		a.chains[id] = parent
	}
	a.images[i.ID] = image{keys: i.BigDataNames, digests: d.digests()}
	return a.checkNames(i)
}

// checkNames checks that the digests in an image's names are the image's, and that no other image
// of the store has one of the names: CRI-O cannot list the images of a read-only store in which two
// have one name.
func (a *auditor) checkNames(i layout.Image) error {
	for _, name := range i.Names {
		ref, err := pinset.ParseReference(name)
		if err != nil {
			return invalid("%w", err)
		}
		if ref.Digest != "" && !a.images[i.ID].digests[ref.Digest.String()] {
			return invalid("name %s: the digest is of no manifest or index of the image", name)
		}
		if other, twice := a.content.Names[name]; twice {
			return invalid("name %s: the image %s has it too", name, other)
		}
		a.content.Names[name] = i.ID
	}
	return nil
}

// Document reads a document of an image, and checks it with the size and the digest in the image's
// record.
func Document(files fs.FS, i layout.Image, key string) ([]byte, error) {
	name := layout.DocumentFile(i.ID, key)
	content, err := readFile(files, name, layout.MaxDocumentBytes)
	if err != nil {
		return nil, err
	}
	if got := digest.FromBytes(content); got != i.BigDataDigests[key] || int64(len(content)) != i.BigDataSizes[key] {
		return nil, invalid("its document %q has %d bytes with the digest %s, want %d with %s",
			key, len(content), got, i.BigDataSizes[key], i.BigDataDigests[key])
	}
	return content, nil
}

// readFile reads a regular file of at most so many bytes.
func readFile(files fs.FS, name string, limit int64) ([]byte, error) {
	fi, err := fs.Lstat(files, name)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() { // opening a pipe would block
		return nil, invalid("%s: %s, want a file", name, kindOf(fi.Mode()))
	}
	f, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(content)) > limit {
		err = invalid("more than %d bytes", limit)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return content, nil
}

// imageDocuments are the documents of an image.
type imageDocuments struct {
	id string
	// manifests are the digests of its manifests.
	manifests map[string]bool
	// indexes are the manifests that its indexes list, by the digests of the indexes.
	indexes map[string][]digest.Digest
	// layers is the number of layers in its own manifest, and chain has their IDs by its
	// configuration.
	layers     int
	configured bool
	chain      []string
}

// add adds a document.
func (d *imageDocuments) add(key string, content []byte) (err error) {
	kind, of, _ := strings.Cut(key, "-")
	switch {
	case key == layout.ConfigKey(d.id):
		d.configured = true
		if digest.FromBytes(content).String() != key {
			return invalid("another digest than the ID of the image")
		}
		d.chain, err = Chain(content)
	case key == layout.ManifestData:
		d.layers, err = d.checkManifest(content)
	case kind == "manifest" && digest.FromBytes(content).String() == of:
		err = d.addManifest(of, content)
	case key == layout.SignaturesData, kind == "signature" && pinset.ValidID(of):
	default:
		err = invalid("no document of this image has this key")
	}
	return err
}

// manifest has the fields of a manifest, or of an index, that matter here. The others are those of
// other formats: an ambiguous document is refused, as ValidateUnambiguousManifestFormat in
// containers/image, internal/manifest does.
type manifest struct {
	Config *struct {
		Digest digest.Digest `json:"digest"`
	} `json:"config"`
	Layers    []struct{}      `json:"layers"`
	Manifests *manifestList   `json:"manifests"`
	FSLayers  json.RawMessage `json:"fsLayers"`
	History   json.RawMessage `json:"history"`
}

// manifestList are the digests of the manifests in an index.
type manifestList []digest.Digest

// UnmarshalJSON reads one entry after the other: in memory, `{},` is ten times larger.
func (l *manifestList) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('[') {
		return errors.Join(errors.New("manifests: not a list"), err)
	}
	*l = manifestList{}
	for dec.More() {
		var listed struct {
			Digest digest.Digest `json:"digest"`
		}
		if len(*l) == layout.MaxListed {
			return fmt.Errorf("manifests: more than %d", layout.MaxListed)
		}
		if err := dec.Decode(&listed); err != nil {
			return err
		}
		*l = append(*l, listed.Digest)
	}
	return nil
}

func (d *imageDocuments) addManifest(of string, content []byte) error {
	var m manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return invalid("%w", err)
	}
	if m.Config != nil || m.Manifests == nil {
		d.manifests[of] = true
		_, err := d.checkManifest(content)
		return err
	}
	if m.Layers != nil || m.FSLayers != nil || m.History != nil {
		return invalid("both an index and a manifest")
	}
	d.indexes[of] = *m.Manifests
	return nil
}

// checkManifest checks that a manifest is of the image, and returns the number of layers.
func (d *imageDocuments) checkManifest(content []byte) (layers int, err error) {
	var m manifest
	if err := json.Unmarshal(content, &m); err != nil {
		return 0, invalid("%w", err)
	}
	switch {
	case m.Config == nil || m.Manifests != nil || m.FSLayers != nil || m.History != nil:
		return 0, invalid("not the manifest of an image")
	case m.Config.Digest.String() != layout.ConfigKey(d.id):
		return 0, invalid("the manifest of another image: its configuration is %s", m.Config.Digest)
	}
	return len(m.Layers), nil
}

// complete checks that the documents are those of the record.
func (d *imageDocuments) complete(i layout.Image) error {
	top := ""
	if len(d.chain) > 0 {
		top = d.chain[len(d.chain)-1]
	}
	switch {
	case !d.configured:
		return invalid("it has no configuration")
	case i.Digest == "" || i.BigDataDigests[layout.ManifestData] != i.Digest || !d.manifests[i.Digest.String()]:
		return invalid("it has no manifest with the digest %s", i.Digest)
	case d.layers != len(d.chain):
		return invalid("its manifest has %d layers, its configuration %d", d.layers, len(d.chain))
	case top != i.TopLayer:
		return invalid("its top layer is %s by its configuration, %s by its record", top, i.TopLayer)
	}
	for index, listed := range d.indexes {
		if !slices.ContainsFunc(listed, func(l digest.Digest) bool { return d.manifests[l.String()] }) {
			return invalid("its index %s does not list its manifest", index)
		}
	}
	return nil
}

// digests are the digests by which the image may be named.
func (d *imageDocuments) digests() map[string]bool {
	all := maps.Clone(d.manifests)
	for index := range d.indexes {
		all[index] = true
	}
	return all
}

// Chain returns the IDs of the layers of an image, the lowest first, by the image's configuration.
func Chain(config []byte) ([]string, error) {
	var c struct {
		RootFS struct {
			DiffIDs []digest.Digest `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(config, &c); err != nil {
		return nil, invalid("%w", err)
	}
	if len(c.RootFS.DiffIDs) > layout.MaxLayers {
		return nil, invalid("%d layers; an image has at most %d", len(c.RootFS.DiffIDs), layout.MaxLayers)
	}
	var chain []string
	top := ""
	for _, diffID := range c.RootFS.DiffIDs {
		if err := pinset.CheckDigest("diff_ids", diffID); err != nil {
			return nil, invalid("%w", err)
		}
		top = layout.LayerID(top, diffID)
		chain = append(chain, top)
	}
	return chain, nil
}
