package storage

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
)

// ociImages lists the images of an OCI layout in a folder or a tar file. Its index is read
// once for all of them: the transport of containers/image reads it again for each image
// that it opens (oci/layout/oci_src.go, newImageSource), so its work grows with their
// square.
func ociImages(files opener, origin string) (all []Found, err error) {
	content, err := readFile(files, imgspecv1.ImageIndexFile)
	if err != nil {
		return nil, err
	}
	var index imgspecv1.Index
	if err := json.Unmarshal(content, &index); err != nil {
		return nil, fmt.Errorf("%s: %w", imgspecv1.ImageIndexFile, err)
	}
	for _, m := range index.Manifests {
		if err := m.Digest.Validate(); err != nil {
			return nil, fmt.Errorf("%s: %w", imgspecv1.ImageIndexFile, err)
		}
		all = append(all, Found{Name: m.Annotations[imgspecv1.AnnotationRefName], Digest: m.Digest, origin: origin, pool: ociBlobs{files}})
	}
	return all, nil
}

// ociBlobs are the blobs of a layout. No other place has what is missing there, so a
// blob is said to be there until it is opened.
type ociBlobs struct{ files opener }

func (b ociBlobs) has(digest.Digest) bool { return true }

func (b ociBlobs) open(d digest.Digest) (io.ReadCloser, int64, error) {
	return b.files.Open(path.Join(imgspecv1.ImageBlobsDir, d.Algorithm().String(), d.Encoded()))
}

func (b ociBlobs) layer(d digest.Digest) (io.ReadCloser, error) { return nil, missing(d) }

func (b ociBlobs) signatures(digest.Digest) ([][]byte, error) { return nil, nil }

// folder is a folder whose files are read where they lie, through links.
type folder string

func (dir folder) Open(name string) (io.ReadCloser, int64, error) {
	return openFile(filepath.Join(string(dir), filepath.FromSlash(name)))
}
