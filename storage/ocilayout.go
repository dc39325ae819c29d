package storage

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"

	bounded "github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ociImages lists the images of an OCI layout in a folder or a tar file. It reads the index once.
// The transport of containers/image reads the index for each image (newImageSource in
// oci/layout/oci_src.go), so that its work grows with the square of their number.
func ociImages(files fileOpener, origin string) (all []LocalImage, err error) {
	r, _, err := files.Open(imgspecv1.ImageIndexFile)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	content, err := bounded.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", imgspecv1.ImageIndexFile, err)
	}
	var index struct {
		Manifests []layoutEntry `json:"manifests"`
	}
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", imgspecv1.ImageIndexFile, err)
	}
	blobs := ociBlobs{files, map[digest.Digest]digest.Digest{}}
	for _, m := range index.Manifests {
		name := layoutName(m.Annotations)
		found := LocalImage{
			Name: name, Digest: m.Digest, origin: origin, blobs: blobs, selfContained: true, other: m.other(name),
		}
		if m.Digest.Algorithm() != digest.SHA256 && !found.other {
			if found.Digest, err = blobs.alias(m.Digest); err != nil {
				return nil, err
			}
		}
		all = append(all, found)
	}
	return all, nil
}

// layoutEntry is what is used of a descriptor in an index.
type layoutEntry struct {
	Digest       digest.Digest     `json:"digest"`
	ArtifactType string            `json:"artifactType"`
	Annotations  map[string]string `json:"annotations"`
}

// besideImage is the tag of what belongs to an image: its signature, attestations or bill of materials by cosign.
// Without the ending it may be that of an image, which oc-mirror tags so.
var besideImage = regexp.MustCompile(`(^|:)sha256-[0-9a-f]{64}\.[a-z]+$`)

// other reports whether an entry belongs to an image, and is none itself: cosign and Hauler say so in the annotation
// "kind" (dev.cosignproject.cosign/sigs, dev.hauler/atts; those of images end in image and imageIndex), ORAS copies
// referrers without a name.
func (e layoutEntry) other(name string) bool {
	kind := path.Base(e.Annotations["kind"])
	switch {
	case besideImage.MatchString(name):
		return true
	case strings.Contains(e.Annotations["kind"], "/"):
		return kind != "image" && kind != "imageIndex"
	}
	// go-containerregistry gives an image the type of its configuration.
	return name == "" && artifactType(e.ArtifactType, nil) != ""
}

// UnmarshalJSON validates each entry while it is read: 4 MiB of empty ones would take much memory.
func (e *layoutEntry) UnmarshalJSON(text []byte) error {
	type plain layoutEntry
	if err := json.Unmarshal(text, (*plain)(e)); err != nil {
		return err
	}
	return e.Digest.Validate()
}

// containerdName is an annotation with the full name of an image. docker and nerdctl write it if
// ref.name is only a tag: core/images/annotations.go of containerd.
const containerdName = "io.containerd.image.name"

// layoutName returns the name of an image in an index.
func layoutName(annotations map[string]string) string {
	name := annotations[imgspecv1.AnnotationRefName]
	if _, short, err := pinset.Expand(name); err != nil || short {
		return cmp.Or(annotations[containerdName], name)
	}
	return name
}

// ociBlobs has the blobs of an OCI layout. Manifests that the layout names by another algorithm also have a SHA-256, by
// which images are pinned.
type ociBlobs struct {
	files   fileOpener
	aliases map[digest.Digest]digest.Digest // by the SHA-256
}

// alias returns the SHA-256 of a manifest that the layout names by another algorithm, and verifies that digest.
func (b ociBlobs) alias(d digest.Digest) (digest.Digest, error) {
	r, _, err := b.open(d)
	if err != nil {
		return "", err
	}
	defer r.Close()
	content, err := readManifest(r, d.String())
	if err != nil {
		return "", err
	}
	if d.Algorithm().FromBytes(content) != d {
		return "", fmt.Errorf("manifest: %w: it is not %s", ErrDigest, d)
	}
	sum := digest.FromBytes(content)
	b.aliases[sum] = d
	return sum, nil
}

func (b ociBlobs) name(d digest.Digest) string {
	if other, ok := b.aliases[d]; ok {
		d = other
	}
	return path.Join(imgspecv1.ImageBlobsDir, d.Algorithm().String(), d.Encoded())
}

func (b ociBlobs) has(d digest.Digest) bool { return b.files.Has(b.name(d)) }

func (b ociBlobs) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if !b.has(d) {
		return nil, 0, missing(d)
	}
	return b.files.Open(b.name(d))
}

func (b ociBlobs) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (b ociBlobs) signatures(digest.Digest) ([][]byte, error) { return nil, nil }

// folder opens the files of a folder, and follows links.
type folder string

func (dir folder) path(name string) string {
	return filepath.Join(string(dir), filepath.FromSlash(name))
}

// Has is also true for a file that stat(2) cannot read, so that Open returns the reason.
func (dir folder) Has(name string) bool {
	_, err := os.Stat(dir.path(name))
	return !errors.Is(err, fs.ErrNotExist)
}

func (dir folder) Open(name string) (io.ReadCloser, int64, error) { return openFile(dir.path(name)) }
