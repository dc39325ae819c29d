package storage

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/klauspost/compress/gzip"
	"github.com/opencontainers/go-digest"
	"github.com/vbatts/tar-split/tar/asm"
	tarsplit "github.com/vbatts/tar-split/tar/storage"

	"github.com/pinbox/pinbox/storage/compose"
)

// ImageStore is a store of containers/storage with its overlay driver: podman's,
// CRI-O's or one that pinbox made and that is mounted. It is read without its
// locks, which belong to whoever writes to it.
type ImageStore struct {
	dir    string
	images []storedImage
	// documents are manifests and configurations.
	documents map[digest.Digest]string
	layers    map[digest.Digest]string // IDs by DiffID
}

// storedImage is what matters here of images.json: Image in containers/storage,
// images.go.
type storedImage struct {
	ID      string                   `json:"id"`
	Digest  digest.Digest            `json:"digest"`
	Names   []string                 `json:"names"`
	Digests map[string]digest.Digest `json:"big-data-digests"`
	// Metadata is JSON.
	Metadata string `json:"metadata"`
}

// OpenImageStore reads what is in the store at dir.
func OpenImageStore(dir string) (*ImageStore, error) {
	s := &ImageStore{dir: dir, documents: map[digest.Digest]string{}, layers: map[digest.Digest]string{}}
	var layers []struct {
		ID     string         `json:"id"`
		DiffID digest.Digest  `json:"diff-digest"`
		Flags  map[string]any `json:"flags"`
	}
	err := errors.Join(s.index("overlay-images/images.json", &s.images), s.index("overlay-layers/layers.json", &layers))
	if err != nil {
		return nil, fmt.Errorf("image store %s: %w: %w", dir, ErrLocal, err)
	}
	for _, img := range s.images {
		for key, d := range img.Digests {
			s.documents[d] = filepath.Join(dir, "overlay-images", img.ID, compose.DataFile(key))
		}
	}
	for _, l := range layers {
		if l.Flags["incomplete"] != true { // a pull that was cut off
			s.layers[l.DiffID] = l.ID
		}
	}
	return s, nil
}

func (s *ImageStore) index(name string, list any) error {
	content, err := os.ReadFile(filepath.Join(s.dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, list); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Images lists the images of the store, once for each of their names.
func (s *ImageStore) Images() (all []Found) {
	for _, img := range s.images {
		for _, name := range img.Names {
			found := Found{Name: name, Digest: img.Digest, pool: s.pool()}
			if at := bytes.IndexByte([]byte(name), '@'); at >= 0 {
				found.Digest = digest.Digest(name[at+1:])
			}
			all = append(all, found)
		}
	}
	return all
}

func (s *ImageStore) pool() *pool {
	return &pool{open: s.document, has: s.hasDocument, layer: s.layer, signatures: s.signatures}
}

// signatures of a manifest stand behind each other, with their sizes elsewhere.
func (s *ImageStore) signatures(manifest digest.Digest) (all [][]byte, err error) {
	for _, img := range s.images {
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
		content, err := os.ReadFile(filepath.Join(s.dir, "overlay-images", img.ID, compose.DataFile(compose.SignatureKey(manifest))))
		if err != nil {
			return nil, fmt.Errorf("image store %s: %w: %w", s.dir, ErrLocal, err)
		}
		for _, size := range sizes.Each[manifest] {
			if size < 0 || size > len(content) {
				return nil, fmt.Errorf("image store %s: %w: signatures of %s are cut off", s.dir, ErrLocal, img.ID)
			}
			all, content = append(all, content[:size]), content[size:]
		}
	}
	return all, nil
}

func (s *ImageStore) hasDocument(d digest.Digest) bool { return s.documents[d] != "" }

func (s *ImageStore) document(d digest.Digest) (io.ReadCloser, int64, error) {
	if !s.hasDocument(d) {
		return nil, 0, fmt.Errorf("%w: %s", ErrIncomplete, d)
	}
	f, err := os.Open(s.documents[d])
	if err != nil {
		return nil, 0, err
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, fi.Size(), nil
}

// layer puts the tar stream of a layer together again: of its files, and of the
// record of all else that containers/storage keeps beside them.
func (s *ImageStore) layer(diffID digest.Digest) (io.ReadCloser, error) {
	id, ok := s.layers[diffID]
	if !ok {
		return nil, fmt.Errorf("%w: %s", ErrIncomplete, diffID)
	}
	record, err := os.Open(filepath.Join(s.dir, "overlay-layers", id+".tar-split.gz"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: layer %s has no record of its tar stream there", ErrLocal, id)
	}
	if err != nil {
		return nil, err
	}
	plain, err := gzip.NewReader(record)
	if err != nil {
		return nil, errors.Join(err, record.Close())
	}
	stream := asm.NewOutputTarStream(layerFiles(filepath.Join(s.dir, "overlay", id, "diff")), tarsplit.NewJSONUnpacker(plain))
	return reassembled{stream, closers{stream, plain, record}}, nil
}

// layerFiles are those below a layer's folder, whose links count from there.
type layerFiles string

var _ tarsplit.FileGetter = layerFiles("")

// Get opens a file by its name in the tar stream.
func (dir layerFiles) Get(name string) (io.ReadCloser, error) {
	path, err := securejoin.SecureJoin(string(dir), name)
	if err != nil {
		return nil, err
	}
	return os.Open(path)
}

type reassembled struct {
	io.Reader
	closers
}

// storesPool looks for blobs in a pool, and for what it has not in earlier stores.
func storesPool(first pool, stores []*ImageStore) *pool {
	in := func(has func(*ImageStore) bool) *ImageStore {
		if i := slices.IndexFunc(stores, has); i >= 0 {
			return stores[i]
		}
		return nil
	}
	return &pool{
		open: func(d digest.Digest) (io.ReadCloser, int64, error) {
			if s := in(func(s *ImageStore) bool { return s.hasDocument(d) }); s != nil && !first.has(d) {
				return s.document(d)
			}
			return first.open(d)
		},
		has: func(d digest.Digest) bool {
			return first.has(d) || in(func(s *ImageStore) bool { return s.hasDocument(d) }) != nil
		},
		layer: func(diffID digest.Digest) (io.ReadCloser, error) {
			if s := in(func(s *ImageStore) bool { return s.layers[diffID] != "" }); s != nil {
				return s.layer(diffID)
			}
			return nil, fmt.Errorf("%w: %s", ErrIncomplete, diffID)
		},
	}
}
