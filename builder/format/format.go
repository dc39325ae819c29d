package format

import (
	"context"
	"errors"
	"os"
	"path"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Name of a format in the appliance file; "" stands for the first one of the table.
type Name string

// Format is what a store is written as. All formats hold the same tree.
type Format interface {
	// Describe says what the format is, and what goes with it.
	Describe() Description
	// Needs says what room it takes to write a store.
	Needs(Sizes) Needs
	// Open starts a store. The caller ends it with Close and Abort.
	Open(context.Context, Options) (Store, error)
	// Verify looks for what sums do not tell about the store at a path, and gives its size in bytes.
	Verify(path string) (size int64, err error)
}

// table has all formats.
var table = []Format{squashFormat{}, tarFormat{}, dirFormat{}}

// Description of a format.
type Description struct {
	Name Name
	// File is the store's name in the appliance's folder, Delta that in a delta's; "" if the format has none.
	File, Delta string
	// Record is a file within every store of the format, if the store is a folder.
	Record string
	// Mounted says that the node mounts the store, so that it can come on a medium, in a partition or in
	// an ISO. Else somebody puts the tree into a folder of the node, before CRI-O starts.
	Mounted bool
	// MainStore says that this folder can be CRI-O's own store.
	MainStore bool
	// Wanted is what the node wants at the store's place: the store, or what is in it.
	Wanted string
	// Cached says that packed layers are kept for later builds.
	Cached bool
	// NoBase is why no delta can be made for nodes with such a store; "" if it can.
	NoBase string
	// Permitted checks whether this process may write the format; nil if every process may.
	Permitted func() error
	// Confined returns a warning if a store that this process writes is of limited use, else "".
	// It is called after Permitted; nil if there is never such a warning.
	Confined func() string
}

// Sizes of what goes into a store, in bytes.
type Sizes struct {
	// Packed is the size of its layers once they are packed, Kept that of those which the cache has, and
	// Largest that of the largest.
	Packed, Kept, Largest int64
	// Unpacked is the size of the layers' files.
	Unpacked int64
	// Own is the size of the files that are no layer's.
	Own int64
	// Cached says that a cache keeps the packed layers.
	Cached bool
}

// Needs are what is written, in bytes; the zero value if that will be known before it is written.
type Needs struct {
	Store int64 // the store itself
	Work  int64 // beside it, until it is complete
	Cache int64 // in the cache
}

// Options of a store.
type Options struct {
	// Dir is the folder in which it grows, with the files that writing takes.
	Dir string
	// Name of the store in the folder.
	Name string
	// ModTime stamps the files that are no image's own.
	ModTime time.Time
	// Packing is how layers are packed.
	Packing squashfs.Options
	// Cache keeps packed layers; the zero value keeps nothing.
	Cache cache.Cache
	// AddBases tells a delta's store of the layers that its bases have; nil of other stores.
	AddBases func(*compose.Store) error
	// Fits is asked once the store's size is known, if that is before it is written.
	Fits func(size int64) error
	// Hooks tell how far the work is.
	Hooks progress.Hooks
}

// Store is a store that is being written.
type Store interface {
	// Fill reads the layers of the images, writes both, and notes the unpacked sizes of the layers.
	Fill(ctx context.Context, client *storage.Client, images []storage.Resolved) error
	// Add writes a file beside the storage tree.
	Add(File) error
	// Close writes what is left.
	Close() (artifact.Store, error)
	// Abort gives up what was not closed.
	Abort() error
}

// File is a file in a store that is no image's.
type File struct {
	Name    string
	Perm    uint32
	Content []byte
	// Program has the content instead: that of a large file, which is the same in every build.
	Program *os.File
}

// ErrChanged says that a file was changed while it was read.
var ErrChanged = errors.New("was changed while it was read")

// Names of all formats.
func Names() (names []string) {
	for _, f := range table {
		names = append(names, string(f.Describe().Name))
	}
	return names
}

// Of finds a format by its name; nil if there is none.
func Of(name Name) Format {
	for _, f := range table {
		if name == f.Describe().Name || name == "" {
			return f
		}
	}
	return nil
}

// Find finds the format of the store in the folder that has the sums, and the store's name there; nil
// if there is none.
func Find(sums artifact.Sums) (Format, string) {
	for _, f := range table {
		d := f.Describe()
		switch {
		case sums[d.File] != "", d.Record != "" && sums[path.Join(d.File, d.Record)] != "":
			return f, d.File
		case sums[d.Delta] != "":
			return f, d.Delta
		}
	}
	return nil, ""
}
