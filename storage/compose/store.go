// Package compose turns layers and manifests into one containers/storage tree:
// the read-only image store of an appliance.
//
// Layers flow through: nothing is extracted to disk, each layer is read once
// and verified on the way. Names, links, time stamps and order are functions of
// content.
package compose

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Layer is one layer to add.
type Layer struct {
	// Parent is the ID of the layer below, "" for a base layer. It is added first.
	Parent string
	// Digest and Size of the blob in bytes.
	Digest digest.Digest
	Size   int64
	// MediaType of the blob.
	MediaType string
	// DiffID is the digest of its uncompressed tar stream.
	DiffID digest.Digest
	// Open starts to read the blob; the reader fails at its end if the blob does
	// not match Digest.
	Open func(context.Context) (io.ReadCloser, error)
}

// Unpacked is what is known of a layer that was read.
type Unpacked struct {
	// ID of the layer in the store.
	ID string
	// Size of the uncompressed tar stream in bytes.
	Size int64
	// Inodes of the unpacked layer.
	Inodes int64
}

// Image is one image to add. Its layers are added first.
type Image struct {
	// Names under which CRI-O finds the image: the one that it pins, and tags.
	Names []string
	// TopLayer is the ID of its last layer, "" if it has none.
	TopLayer string
	// Index is the index that led to the manifest, if there is one.
	Index, Manifest, Config []byte
	// Signatures of the manifest, as containers/image keeps them.
	Signatures [][]byte
	Created    time.Time
}

// Store is a store that is being composed. Its methods are called from one
// goroutine.
type Store struct {
	w     *squashfs.Writer
	root  *squashfs.Inode
	mtime time.Time
	tmp   string

	layers   []layerRecord
	chains   map[string]chain
	images   map[string]*imageRecord
	overlay  *squashfs.Inode
	links    *squashfs.Inode
	layerDir *squashfs.Inode
}

// chain is what the layers above need to know of a layer.
type chain struct {
	unpacked Unpacked
	lower    string // content of a child's file "lower"
	root     rootOwner
}

// NewStore starts a store. modTime stamps all files that are not an image's own;
// the folder tmp takes files that have no name and end with the process.
func NewStore(w *squashfs.Writer, modTime time.Time, tmp string) *Store {
	s := &Store{
		w: w, mtime: modTime, tmp: tmp,
		chains: map[string]chain{"": {root: rootOwner{perm: 0o555}}},
		images: map[string]*imageRecord{},
	}
	s.root = s.dir(0o755)
	// In an image without any attribute the kernel fails to list those of a file,
	// rather than to find none; containers see that through overlay.
	s.root.Xattrs = map[string]string{"user.pinbox": "store"}
	s.overlay, s.links, s.layerDir = s.dir(0o700), s.dir(0o755), s.dir(0o700)
	s.root.Set("overlay", s.overlay)
	s.root.Set("overlay-layers", s.layerDir)
	s.overlay.Set("l", s.links)
	return s
}

// AddLayer reads a layer into the store. A layer that is there already is not
// read again.
func (s *Store) AddLayer(ctx context.Context, l Layer) (Unpacked, error) {
	id := LayerID(l.Parent, l.DiffID)
	if there, ok := s.chains[id]; ok {
		return there.unpacked, nil
	}
	below, ok := s.chains[l.Parent]
	if !ok {
		return Unpacked{}, fmt.Errorf("layer %s: its parent %s is not in the store", l.Digest, l.Parent)
	}
	spool, err := newSpool(s.tmp)
	if err != nil {
		return Unpacked{}, err
	}
	defer spool.Close()
	r, st, err := s.unpack(ctx, l, newTree(below.root), spool)
	if err != nil {
		return Unpacked{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	if st.kind == uncompressed && l.Digest != l.DiffID { // what came was not the blob
		st.kind = compressionOf(l.MediaType)
	}
	u := Unpacked{ID: id, Size: st.size, Inodes: count(r.tree.root)}
	rec := layerRecord{
		ID: id, Parent: l.Parent, Created: s.mtime.UTC(),
		CompressedDigest: l.Digest, CompressedSize: l.Size,
		UncompressedDigest: l.DiffID, UncompressedSize: st.size, Compression: st.kind,
		UIDs: sorted(r.uids), GIDs: sorted(r.gids),
	}
	s.chains[id] = chain{unpacked: u, lower: lowerOf(id, below.lower), root: r.tree.owner()}
	s.layers = append(s.layers, rec)
	return u, s.placeLayer(id, below, r.tree.root, spool)
}

// unpack reads the layer once. If entries of it replace others, it reads it
// again, for its record must hold what was replaced.
func (s *Store) unpack(ctx context.Context, l Layer, t *tree, spool *os.File) (*reader, *stream, error) {
	st, err := openStream(ctx, l.Open)
	if err != nil {
		return nil, nil, err
	}
	defer st.close()
	split, err := newSplitter(st, spool)
	if err != nil {
		return nil, nil, err
	}
	r := newReader(s.w, t, split)
	if err := r.read(); err != nil {
		return nil, nil, st.explain(ctx, err, l.DiffID)
	}
	if err := st.verify(l.DiffID); err != nil {
		return nil, nil, err
	}
	if len(r.superseded) > 0 {
		return r, st, s.splitAgain(ctx, l, r.superseded, spool)
	}
	return r, st, nil
}

func lowerOf(id, lower string) string {
	link := "l/" + linkName(id)
	if lower == "" {
		return link
	}
	return link + ":" + lower
}

// placeLayer writes the layer's directory and its record of the tar stream.
func (s *Store) placeLayer(id string, below chain, diff *squashfs.Inode, spool *os.File) error {
	dir := s.dir(0o700)
	s.overlay.Set(id, dir)
	dir.Set("diff", diff)
	if err := s.file(dir, "link", 0o644, strings.NewReader(linkName(id))); err != nil {
		return err
	}
	if below.lower != "" {
		if err := s.file(dir, "lower", 0o644, strings.NewReader(below.lower)); err != nil {
			return err
		}
	}
	s.links.Set(linkName(id), &squashfs.Inode{
		Mode: syscall.S_IFLNK | 0o777, Target: path.Join("..", id, "diff"), ModTime: s.mtime.Unix(),
	})
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if err := s.file(s.layerDir, id+".tar-split.gz", 0o600, spool); err != nil {
		return err
	}
	return s.w.Seal(dir)
}

// AddImage records an image. The same image under another name becomes one
// record with both.
func (s *Store) AddImage(img Image) {
	manifest, id := digest.FromBytes(img.Manifest), digest.FromBytes(img.Config).Encoded()
	rec := s.images[id]
	if rec == nil {
		rec = &imageRecord{ID: id, Digest: manifest, TopLayer: img.TopLayer, Created: img.Created.UTC()}
		s.images[id] = rec
	}
	rec.Names = append(rec.Names, img.Names...)
	rec.set(digest.FromBytes(img.Config).String(), img.Config)
	if img.Index != nil {
		rec.set(manifestKey(digest.FromBytes(img.Index)), img.Index)
	}
	rec.set(manifestKey(manifest), img.Manifest)
	rec.set("manifest", img.Manifest)
	if len(img.Signatures) > 0 {
		if len(rec.signatures[rec.Digest]) == 0 {
			rec.prefer(img.Manifest) // a policy asks for the signatures of one alone
		}
		rec.sign(manifest, img.Signatures)
	}
}

// AddFile puts a file beside the storage tree, with the folders that its path
// names.
func (s *Store) AddFile(name string, perm uint32, content io.Reader) error {
	dir := s.root
	folder, base := path.Split(path.Clean(name))
	for part := range strings.SplitSeq(strings.Trim(folder, "/"), "/") {
		if part == "" {
			continue
		}
		next := dir.Entry(part)
		if next == nil {
			next = s.dir(0o755)
			dir.Set(part, next)
		}
		dir = next
	}
	return s.file(dir, base, perm, content)
}

// Close writes the records and ends the image. It returns its size in bytes.
func (s *Store) Close() (int64, error) {
	if err := s.index(s.layerDir, "layers", append([]layerRecord{}, s.layers...)); err != nil {
		return 0, err
	}
	images := []*imageRecord{}
	dir := s.dir(0o700)
	s.root.Set("overlay-images", dir)
	for _, id := range slices.Sorted(maps.Keys(s.images)) {
		rec := s.images[id]
		slices.Sort(rec.Names)
		rec.Names = slices.Compact(rec.Names)
		if err := rec.seal(); err != nil {
			return 0, err
		}
		images = append(images, rec)
		data := s.dir(0o700)
		dir.Set(id, data)
		for _, key := range rec.BigDataNames {
			if err := s.file(data, DataFile(key), 0o600, bytes.NewReader(rec.data[key])); err != nil {
				return 0, err
			}
		}
	}
	if err := s.index(dir, "images", images); err != nil {
		return 0, err
	}
	return s.w.Close(s.root)
}

// index writes layers.json or images.json and its lock file. Without the lock
// files a store on a read-only file system looks empty or breaks every listing;
// with equal ones CRI-O does not notice that another store was mounted.
func (s *Store) index(dir *squashfs.Inode, name string, list any) error {
	content, token, err := records(list)
	if err != nil {
		return err
	}
	return errors.Join(
		s.file(dir, name+".json", 0o600, bytes.NewReader(content)),
		s.file(dir, name+".lock", 0o644, bytes.NewReader(token)))
}

func (s *Store) dir(perm uint32) *squashfs.Inode {
	return squashfs.NewDir(perm, 0, 0, s.mtime.Unix())
}

func (s *Store) file(dir *squashfs.Inode, name string, perm uint32, r io.Reader) error {
	content, err := s.w.Content(r)
	if err != nil {
		return err
	}
	dir.Set(name, &squashfs.Inode{Mode: syscall.S_IFREG | perm, Content: content, ModTime: s.mtime.Unix()})
	return nil
}

// newSpool opens a file that has no name, so that nothing stays behind.
func newSpool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".spool-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}
