package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/vbatts/tar-split/tar/asm"
	tarsplit "github.com/vbatts/tar-split/tar/storage"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
)

// ImageStore is a store of containers/storage with the overlay driver: of podman or CRI-O, or a
// mounted one of pinbox. It is read without taking its locks, which are for programs that write.
type ImageStore struct {
	dir    string
	images []layout.Image
	// documents has the paths of manifests and configurations, by their digests.
	documents map[digest.Digest]string
	// holders has the images that have a manifest, by its digest.
	holders map[digest.Digest][]layout.Image
	layers  map[digest.Digest]string // IDs by DiffID
}

// OpenImageStore reads the records of the store at dir.
func OpenImageStore(dir string) (*ImageStore, error) {
	s := &ImageStore{
		dir: dir, documents: map[digest.Digest]string{}, holders: map[digest.Digest][]layout.Image{},
		layers: map[digest.Digest]string{},
	}
	if err := checkStore(dir); err != nil {
		return nil, err
	}
	documents := layout.Open(os.DirFS(dir))
	err := errors.Join(documents.Images(s.addImage), documents.Layers(s.addLayer))
	if err != nil {
		return nil, fmt.Errorf("image store %s: %w: %w", dir, ErrLocal, err)
	}
	return s, nil
}

// checkStore refuses paths that users take for a store.
func checkStore(dir string) error {
	fi, err := stat(dir)
	switch packed := filepath.Join(dir, layout.StoreFile); {
	case err != nil:
		return err
	case !fi.IsDir():
		return fmt.Errorf("%s: %w: a store is a folder; mount one of pinbox's with `mount -o loop,ro %s /mnt`", dir,
			ErrWrongKind, dir)
	case exists(packed):
		return fmt.Errorf("%s: %w: its store is not mounted; `mount -o loop,ro %s /mnt`, and name /mnt", dir, ErrWrongKind,
			packed)
	case !exists(filepath.Join(dir, layout.ImagesDir)):
		return fmt.Errorf("%s: %w: it has no overlay-images, as a store of the overlay driver has", dir, ErrWrongKind)
	}
	return nil
}

func (s *ImageStore) addImage(img layout.Image) error {
	s.images = append(s.images, img)
	for key, d := range img.BigDataDigests {
		s.documents[d] = filepath.Join(s.dir, layout.DocumentFile(img.ID, key))
		if manifest, ok := strings.CutPrefix(key, "manifest-"); ok {
			s.holders[digest.Digest(manifest)] = append(s.holders[digest.Digest(manifest)], img)
		}
	}
	return nil
}

func (s *ImageStore) addLayer(l layout.Layer) error {
	if !l.Incomplete() { // of a pull that was interrupted
		s.layers[l.UncompressedDigest] = l.ID
	}
	return nil
}

// Images lists the images of the store, each once for each of its names.
func (s *ImageStore) Images() (all []LocalImage) {
	for _, img := range s.images {
		for _, name := range img.Names {
			found := LocalImage{Name: name, Digest: img.Digest, origin: s.dir, blobs: s}
			if at := bytes.IndexByte([]byte(name), '@'); at >= 0 {
				found.Digest = digest.Digest(name[at+1:])
			}
			all = append(all, found)
		}
	}
	return all
}

// signatures splits the file with all signatures of a manifest. Their sizes are in the image's
// metadata.
func (s *ImageStore) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, img := range s.holders[manifest] {
		var sizes compose.SignatureSizes
		if img.Metadata == "" {
			continue
		}
		if err := json.Unmarshal([]byte(img.Metadata), &sizes); err != nil {
			return nil, fmt.Errorf("image store %s: %w: metadata of %s: %w", s.dir, ErrLocal, img.ID, err)
		}
		if len(sizes.Each[manifest]) == 0 {
			continue
		}
		content, err := os.ReadFile(filepath.Join(s.dir, layout.DocumentFile(img.ID, layout.SignatureKey(manifest))))
		if err != nil {
			return nil, fmt.Errorf("image store %s: %w: %w", s.dir, ErrLocal, err)
		}
		signatures, whole := sizes.Split(manifest, content)
		if !whole {
			return nil, fmt.Errorf("image store %s: %w: signatures of %s are truncated", s.dir, ErrLocal, img.ID)
		}
		all = append(all, signatures...)
	}
	return all, nil
}

func (s *ImageStore) has(d digest.Digest) bool { return s.documents[d] != "" }

func (s *ImageStore) open(d digest.Digest) (io.ReadCloser, int64, error) {
	if !s.has(d) {
		return nil, 0, missing(d)
	}
	return openFile(s.documents[d])
}

// layer returns the tar stream of a layer. Read reassembles it from the layer's files and the
// tar-split record that containers/storage has of the rest.
func (s *ImageStore) layer(diffID digest.Digest) (io.ReadCloser, error) {
	id, ok := s.layers[diffID]
	if !ok {
		return nil, missing(diffID)
	}
	for _, name := range []string{s.tarSplit(id), s.files(id)} {
		if _, err := os.Stat(name); err != nil {
			return nil, fmt.Errorf("layer %s cannot be reassembled: %w", id, err)
		}
	}
	return &reassembly{store: s, id: id}, nil
}

func (s *ImageStore) tarSplit(id string) string {
	return filepath.Join(s.dir, layout.TarSplitFile(id))
}
func (s *ImageStore) files(id string) string {
	return filepath.Join(s.dir, layout.OverlayDir, id, "diff")
}

// reassembly is the tar stream of a layer.
type reassembly struct {
	store *ImageStore
	id    string
	from  *io.PipeReader // nil before the first Read
	ended chan struct{}
}

func (r *reassembly) Read(p []byte) (int, error) {
	if r.from == nil {
		var to *io.PipeWriter
		r.from, to = io.Pipe()
		r.ended = make(chan struct{})
		go func() {
			defer close(r.ended)
			err := r.write(to)
			if err != nil {
				err = fmt.Errorf("image store %s: layer %s: %w", r.store.dir, r.id, err)
			}
			to.CloseWithError(err) // EOF for nil
		}()
	}
	return r.from.Read(p)
}

func (r *reassembly) write(w io.Writer) error {
	record, _, err := openFile(r.store.tarSplit(r.id))
	if err != nil {
		return err
	}
	defer record.Close()
	plain, err := gzip.NewReader(record)
	if err != nil {
		return err
	}
	return asm.WriteOutputTarStream(layerFiles(r.store.files(r.id)), tarsplit.NewJSONUnpacker(plain), w)
}

// Close waits until the store is no longer read.
func (r *reassembly) Close() error {
	if r.from == nil {
		return nil
	}
	err := r.from.Close()
	<-r.ended
	return err
}

// layerFiles is the folder with a layer's files. Symbolic links are resolved within it.
type layerFiles string

var _ tarsplit.FileGetter = layerFiles("")

// Get opens a file by its name in the tar stream.
func (dir layerFiles) Get(name string) (io.ReadCloser, error) {
	path, err := securejoin.SecureJoin(string(dir), name)
	if err != nil {
		return nil, err
	}
	f, _, err := openFile(path)
	return f, err
}
