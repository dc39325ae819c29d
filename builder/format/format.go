package format

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
)

// Name is the name of a format in the appliance file; "" is the default.
type Name string

// Format is a way to write a store. All formats contain the same tree.
type Format interface {
	// Describe returns the properties of the format.
	Describe() Description
	// Needs returns the disk space that it takes to write a store.
	Needs(Sizes) Needs
	// Open begins to write a store. The caller calls Close, and then Abort in any case.
	Open(context.Context, Options) (Store, error)
	// Verify checks what the sums cannot: the store at a path must be complete. It returns the store with its
	// size, and with its sum if it has computed that.
	Verify(ctx context.Context, path string, hooks progress.Hooks) (artifact.Store, error)
}

// table lists all formats. The first one is the default.
var table = []Format{squashFormat{}, dirFormat{}, thinFormat{}}

// Description lists the properties of a format.
type Description struct {
	Name Name
	// File is the store's name in an appliance's folder; "" if the format cannot be an appliance's.
	File string
	// Delta is the store's name in a delta's folder; "" if the format cannot be a delta's.
	Delta string
	// Mounted is true if the node mounts the store, so that it can be on a medium, in a partition or in an
	// ISO. Otherwise the administrator puts the tree into a folder of the node before CRI-O starts.
	Mounted bool
	// UsesCache is true if the format is made of packs, which the cache keeps for later builds.
	UsesCache bool
	// UnsuitableBase is why a store of this format cannot be the base of a delta; "" if it can.
	UnsuitableBase string
	// Writable checks whether this process may write the format; nil if every process may.
	Writable func() error
	// Limitation returns what a store that this process writes cannot be used for, else "". It is
	// called after Writable; nil if there is never a limitation.
	Limitation func() string
}

// CheckWritable checks whether this process may write the format.
func (d Description) CheckWritable() error {
	if d.Writable == nil {
		return nil
	}
	return d.Writable()
}

// Limitations warns of what a store that this process has written cannot be used for.
func (d Description) Limitations() []string {
	if d.Limitation == nil || d.Limitation() == "" {
		return nil
	}
	return []string{d.Limitation()}
}

// Sizes are the sizes of a store's parts, in bytes.
type Sizes struct {
	// Packed is the size of all packs. Cached is the size of those packs that the cache has already.
	Packed, Cached int64
	// Largest is the size of the largest pack.
	Largest int64
	// Unpacked is the size of the files in all layers.
	Unpacked int64
	// Own is the size of pinbox's own files.
	Own int64
	// HasCache is true if the build has a cache.
	HasCache bool
}

// Needs is the disk space that a build takes, in bytes. It is zero if the exact size of the store will be
// known before the store is written.
type Needs struct {
	Store     int64 // the store itself
	Temporary int64 // files in the same folder that are removed when the store is complete
	Cache     int64 // new packs in the cache
}

// Options are the parameters of a new store.
type Options struct {
	// Dir is the folder for the store and for temporary files.
	Dir string
	// Name is the store's name in Dir.
	Name string
	// ModTime is the modification time of files that do not come from an image.
	ModTime time.Time
	// Packing says how layers are packed, in a format that uses the cache.
	Packing storage.PackOptions
	// Program is the pinbox-node that will be added; nil for none.
	Program *os.File
	// Thin says how to make a thin delta; only its format has it.
	Thin Thin
	// AddBases adds the layers of the bases to a delta's store; nil for an appliance.
	AddBases func(*compose.Store) error
	// CheckSize is called if the size of the store is known before it is written; its error ends the build.
	CheckSize func(size int64) error
	// Hooks report progress.
	Hooks progress.Hooks
}

// Store is a store that is being written.
type Store interface {
	// Fill writes the layers and records of the images, and sets the unpacked sizes of the layers.
	Fill(ctx context.Context, client *storage.Client, images []storage.Resolved) error
	// Add writes one of pinbox's own files.
	Add(File) error
	// Close writes the rest of the store.
	Close() (artifact.Store, error)
	// Abort removes a store that was not closed.
	Abort() error
}

// File is a file in a store that does not come from an image.
type File struct {
	Name    string
	Perm    uint32
	Content []byte
	// Write replaces Content for a text that is too large to hold: it writes the text.
	Write func(io.Writer) error
	// Program replaces Content for a large file that is the same in every build. It is packed once.
	Program *os.File
	// Open replaces Content for a large file with this digest, which is read and packed once. Its reader fails at
	// the end of another content.
	Open   func() (io.ReadCloser, error)
	Digest digest.Digest
}

// addTo adds a file whose content is Content, or what Write writes.
func (f File) addTo(store interface {
	AddFile(name string, perm uint32, content io.Reader) error
}) error {
	if f.Write == nil {
		return store.AddFile(f.Name, f.Perm, bytes.NewReader(f.Content))
	}
	content := compose.Written(f.Write)
	defer content.Close()
	return store.AddFile(f.Name, f.Perm, content)
}

// Names returns the names of all formats of appliances.
func Names() (names []string) {
	for _, f := range table {
		if d := f.Describe(); d.File != "" {
			names = append(names, string(d.Name))
		}
	}
	return names
}

// NamesWith returns the names of the formats of appliances with a property, as text for a message.
func NamesWith(has func(Description) bool) string {
	var names []string
	for _, f := range table {
		if d := f.Describe(); d.File != "" && has(d) {
			names = append(names, string(d.Name))
		}
	}
	return strings.Join(names, " or ")
}

// Of returns the format of an appliance with the name, or nil.
func Of(name Name) Format {
	for _, f := range table {
		if d := f.Describe(); d.File != "" && (name == d.Name || name == "") {
			return f
		}
	}
	return nil
}

// OfThin returns the format of thin deltas.
func OfThin() Format { return thinFormat{} }

// Find returns the format of the store in the folder with the sums, and the store's name there. The format
// is nil if the sums list no store.
func Find(sums layout.Sums) (Format, string) {
	name := release.StoreIn(sums)
	for _, f := range table {
		if d := f.Describe(); name != "" && (name == d.File || name == d.Delta) {
			return f, name
		}
	}
	return nil, ""
}
