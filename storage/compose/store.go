package compose

import (
	"bytes"
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

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Layer describes a layer to add.
type Layer struct {
	// Parent is the ID of the layer below, which is added before, or "".
	Parent string
	// Digest and Size of the blob in bytes.
	Digest digest.Digest
	Size   int64
	// MediaType of the blob.
	MediaType string
	// DiffID is the digest of its uncompressed tar stream.
	DiffID digest.Digest
}

// LayerInfo describes a layer in a store.
type LayerInfo struct {
	// ID of the layer in the store.
	ID string
	// Size of the uncompressed tar stream in bytes.
	Size int64
	// Inodes is the number of inodes of the unpacked layer.
	Inodes int64
	// RootAttributes are those of the layer's root directory: see FormatRootAttributes.
	RootAttributes string
}

// ErrUnknownRootAttributes is the error for a layer that inherits mode and owner of its root
// directory from a layer of another store, if the lock of that store does not contain them.
var ErrUnknownRootAttributes = fault.New(fault.Input,
	"owner and mode of its root directory come from a layer of the base, where they are unknown",
	"name the folder of a build with --from, or the pinbox.lock.json in it; `pinbox lock` does not read layers")

// Image describes an image to add. Its layers are added before.
type Image struct {
	// Names of the image: its pin, and tags.
	Names []string
	// TopLayer is the ID of its top layer, "" if it has none.
	TopLayer string
	// Index is the index that lists the manifest, nil if there is none.
	Index, Manifest, Config []byte
	// Signatures of the manifest, in the form in which containers/image stores them.
	Signatures [][]byte
	Created    time.Time
}

// Output writes the tree of a store: *squashfs.Writer, or in tests what counts trees.
type Output interface {
	// AddPack adds a pack, of which trees have their contents. The output closes its
	// file, which several packs may share.
	AddPack(*squashfs.Pack)
	// WriteTree takes the tree below a directory, which does not change any more and is
	// forgotten; the directory keeps its place.
	WriteTree(dir *squashfs.Inode) error
	// Settle lets a file of a pack that was added take less memory, if possible.
	Settle(file *squashfs.Inode)
	// Abort gives up, and closes the packs.
	Abort()
}

var _ Output = (*squashfs.Writer)(nil)

// Store is a store that is being composed. It is for one goroutine.
type Store struct {
	out        Output
	compressor *squashfs.Compressor
	root       *squashfs.Inode
	mtime      time.Time

	// own is the last pack, with the files that belong to no layer.
	own     *squashfs.Packer
	ownFile *os.File
	// shelf has the packs of the files next to the layers.
	shelf  shelf
	layers *records
	chains chains
	images Images
	// documents has those of the images.
	documents Documents
	overlay   *squashfs.Inode
	links     *squashfs.Inode
	layerDir  *squashfs.Inode
}

// NewStore starts a store of the compressor's packs. modTime stamps all files that are
// not an image's own; the folder tmp takes a file that has no name and ends with the
// process. The caller ends the store with Close or Abort.
func NewStore(out Output, compressor *squashfs.Compressor, modTime time.Time, tmp string) (*Store, error) {
	spool, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return nil, err
	}
	layers, err := newRecords(tmp)
	if err != nil {
		return nil, errors.Join(err, spool.Close())
	}
	s := &Store{
		out: out, compressor: compressor, mtime: modTime, own: compressor.NewPacker(spool), ownFile: spool,
		shelf: shelf{tmp: tmp}, layers: layers, chains: newChains(), images: Images{},
		documents: Documents{Tmp: tmp},
	}
	s.root = s.dir(0o755)
	s.root.Spool(tmp)
	// Without any extended attribute in the image, listxattr(2) fails instead of returning an empty
	// list, and containers see that error through overlay.
	s.root.Xattrs = map[string]string{"user.pinbox": "store"}
	s.overlay, s.links, s.layerDir = s.dir(0o700), s.dir(0o755), s.dir(0o700)
	s.root.Set(layout.OverlayDir, s.overlay)
	s.root.Set(layout.LayersDir, s.layerDir)
	s.overlay.Set(path.Base(layout.LinksDir), s.links)
	return s, nil
}

// Abort releases the store and its output. After Close it does nothing.
func (s *Store) Abort() {
	s.own.Abort()
	_ = s.ownFile.Close()
	s.layers.close()
	s.documents.Close()
	s.shelf.close()
	s.out.Abort()
}

// Lookup returns the description of a layer, and whether the store contains it or a base layer.
func (s *Store) Lookup(l Layer) (LayerInfo, bool) {
	return s.chains.info(layout.LayerID(l.Parent, l.DiffID))
}

// AddLayer adds a layer from its pack, which PackLayer wrote to src and which has size bytes. The
// store closes src, unless Shelves(size): then the caller closes it. If the store contains the layer, AddLayer does
// nothing. A damaged pack is squashfs.ErrDamaged.
func (s *Store) AddLayer(l Layer, src squashfs.File, size int64) (LayerInfo, error) {
	if there, ok := s.Lookup(l); ok {
		return there, nil
	}
	below, ok := s.chains.of(l.Parent)
	if !ok {
		return LayerInfo{}, fmt.Errorf("layer %s: its parent %s is not in the store", l.Digest, l.Parent)
	}
	pack, err := s.compressor.OpenPack(src, size)
	if err != nil {
		return LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	note, diff, record, err := unwrap(pack, l)
	if err != nil {
		return LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	if Shelves(size) {
		if err := s.shelf.take(pack); err != nil {
			return LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
		}
	}
	s.out.AddPack(pack)
	if !below.known && inherits(diff) {
		return LayerInfo{}, fmt.Errorf("layer %s on %s: %w", l.Digest, l.Parent, ErrUnknownRootAttributes)
	}
	if below.known {
		inheritRoot(diff, below.root)
	}
	id := layout.LayerID(l.Parent, l.DiffID)
	s.chains.add(id, chain{
		parent: keyOf(l.Parent), size: note.Size, inodes: count(diff), root: attributesOf(diff), known: true,
	})
	if err := s.layers.add(layout.Layer{
		ID: id, Parent: l.Parent, Created: s.mtime.UTC(),
		CompressedDigest: l.Digest, CompressedSize: l.Size,
		UncompressedDigest: l.DiffID, UncompressedSize: note.Size, Compression: int(compressionOf(l)),
		UIDs: note.UIDs, GIDs: note.GIDs,
	}); err != nil {
		return LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	record.ModTime = s.mtime.Unix()
	s.out.Settle(record)
	s.layerDir.Add(path.Base(layout.TarSplitFile(id)), record)
	if err := s.placeLayer(id, l.Parent, diff); err != nil {
		return LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	info, _ := s.chains.info(id)
	return info, nil
}

// AddBaseLayer adds a layer that is in another store of the nodes, as a parent of layers in this
// one. Unknown fields of its description are zero.
func (s *Store) AddBaseLayer(l Layer, there LayerInfo) error {
	if _, ok := s.chains.of(l.Parent); !ok {
		return fmt.Errorf("layer %s: its parent %s is in no store", l.Digest, l.Parent)
	}
	root, err := parseRootAttributes(there.RootAttributes)
	if err != nil {
		return fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	c := chain{parent: keyOf(l.Parent), size: there.Size, inodes: there.Inodes, known: root != nil}
	if root != nil {
		c.root = *root
	}
	s.chains.add(layout.LayerID(l.Parent, l.DiffID), c)
	return nil
}

// placeLayer adds the directory of a layer.
func (s *Store) placeLayer(id, parent string, diff *squashfs.Inode) error {
	files := map[string]string{"link": layout.LinkName(id)}
	if parent != "" {
		files["lower"], files["lower-layers"] = s.chains.lower(parent)
	}
	dir, err := s.small(files)
	if err != nil {
		return err
	}
	s.overlay.Set(id, dir)
	dir.Set("diff", diff)
	s.links.Add(layout.LinkName(id), &squashfs.Inode{
		Mode: syscall.S_IFLNK | 0o777, Target: path.Join("..", id, "diff"), ModTime: s.mtime.Unix(),
	})
	if err := s.out.WriteTree(dir); err != nil {
		return err
	}
	s.overlay.Add(id, dir)
	return nil
}

// small returns a directory of small files that can be written immediately.
func (s *Store) small(files map[string]string) (*squashfs.Inode, error) {
	var b bytes.Buffer
	p := s.compressor.NewPacker(&b)
	defer p.Abort()
	dir := s.dir(0o700)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content, err := p.Content(strings.NewReader(files[name]))
		if err != nil {
			return nil, err
		}
		dir.Set(name, s.regular(0o644, content))
	}
	pack, err := s.shelf.add(p, &b)
	if err != nil {
		return nil, err
	}
	s.out.AddPack(pack)
	return dir, nil
}

// AddImage adds an image. If the image is there already, its record gets the names, too.
func (s *Store) AddImage(img Image) { s.images.Add(img, &s.documents) }

// Close writes the records, and returns the root directory, with which the caller closes the
// output. It can be called once.
func (s *Store) Close() (*squashfs.Inode, error) {
	if err := s.layers.writeTo(s, s.layerDir, layout.LayersFile, layout.LayersLock); err != nil {
		return nil, err
	}
	if err := s.placeImages(); err != nil {
		return nil, err
	}
	pack, err := s.own.Reopen(s.ownFile)
	if err != nil {
		return nil, err
	}
	s.out.AddPack(pack)
	return s.root, nil
}

// placeImages writes the documents and records of the images.
func (s *Store) placeImages() error {
	defer s.documents.Close()
	images, err := s.images.Records()
	if err := errors.Join(err, s.documents.Err()); err != nil {
		return err
	}
	dir := s.dir(0o700)
	s.root.Set(layout.ImagesDir, dir)
	for _, rec := range images {
		data := s.dir(0o700)
		dir.Set(rec.ID, data)
		for _, d := range rec.BigData {
			content, err := d.Read()
			if err != nil {
				return err
			}
			if err := s.file(data, layout.DataFile(d.Key), 0o600, bytes.NewReader(content)); err != nil {
				return err
			}
		}
	}
	list, err := newRecords(s.shelf.tmp)
	if err != nil {
		return err
	}
	defer list.close()
	for _, image := range images {
		if err := list.add(image.Entry()); err != nil {
			return err
		}
	}
	return list.writeTo(s, dir, layout.ImagesFile, layout.ImagesLock)
}

// Written returns a reader of what write writes, for a text that is too large to hold. The caller closes it.
func Written(write func(io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() { _ = w.CloseWithError(write(w)) }() // it is always nil
	return r
}

func (s *Store) dir(perm uint32) *squashfs.Inode {
	return squashfs.NewDir(perm, 0, 0, s.mtime.Unix())
}

func (s *Store) regular(perm uint32, content *squashfs.Content) *squashfs.Inode {
	return &squashfs.Inode{Mode: syscall.S_IFREG | perm, Content: content, ModTime: s.mtime.Unix()}
}

func (s *Store) file(dir *squashfs.Inode, name string, perm uint32, r io.Reader) error {
	content, err := s.own.Content(r)
	if err != nil {
		return err
	}
	dir.Set(name, s.regular(perm, content))
	return nil
}
