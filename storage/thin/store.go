package thin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Store is the squashfs image of a store: a file, a partition, or an extent of an ISO.
type Store struct {
	// Name of the store in errors.
	Name string
	// File is read from several goroutines. Size in bytes.
	File io.ReaderAt
	Size int64
}

func (s Store) open() (*squashfs.Reader, error) {
	r, err := squashfs.OpenImage(s.File, s.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return r, nil
}

// until returns the store, which cannot be read any more once a context has ended: so each loop over its files ends.
func (s Store) until(ctx context.Context) Store {
	s.File = readerUntil{ctx, s.File}
	return s
}

type readerUntil struct {
	ctx context.Context
	io.ReaderAt
}

// ReadAt implements io.ReaderAt.
func (r readerUntil) ReadAt(p []byte, at int64) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.ReaderAt.ReadAt(p, at)
}

// allUntil is until for several stores.
func allUntil(ctx context.Context, stores []Store) (all []Store) {
	for _, s := range stores {
		all = append(all, s.until(ctx))
	}
	return all
}

// Errors of reading a thin delta.
var (
	// ErrDamaged says that a thin delta does not have the form of docs/format.md, exceeds the limits,
	// or gives other streams than it says.
	ErrDamaged = fault.New(fault.Damaged, "thin delta is damaged",
		"copy the thin delta again from an intact copy, or build it again")
	// ErrNoLayer says that none of the bases has a layer that is needed.
	ErrNoLayer = errors.New("is in none of the bases")
	// ErrBase says that a content of a base is not the one that the layer of the base had: a
	// *BaseError has its place.
	ErrBase = fault.New(fault.Damaged, "content of a base is damaged",
		"copy the base again from an intact copy, or build it again; a delta by layers, without --thin, does not "+
			"read it, and a node can do without it if it has another store with the layer")
)

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrDamaged, fmt.Errorf(format, args...))
}

// BaseError is the error for a file of a base that cannot be read, or has other bytes than it had. It
// is ErrBase.
type BaseError struct {
	// Store is the name of the base, Layer the ID of its layer, and Path that of the file in the
	// layer; "" for the layer's tar-split file.
	Store, Layer, Path string
	// Others are the names of the other bases that have the layer.
	Others []string
	// Err is the cause.
	Err error
}

func (e *BaseError) Error() string {
	file := "its tar-split file"
	if e.Path != "" {
		file = fmt.Sprintf("%q", e.Path)
	}
	text := fmt.Sprintf("%s: layer %s: %s: %v: %v", e.Store, e.Layer, file, ErrBase, e.Err)
	if len(e.Others) > 0 {
		text += "; the layer is also in " + strings.Join(e.Others, ", ")
	}
	return text
}

// Unwrap returns ErrBase and the cause.
func (e *BaseError) Unwrap() []error { return []error{ErrBase, e.Err} }

// bases are the open stores in which layers are looked for, the first one first.
type bases struct {
	stores   []Store
	files    []*squashfs.Reader
	layers   map[string]*baseLayer
	skeleton skeleton // the one that was last read
	rewinds  int      // of it, for one dictionary
}

func openBases(stores []Store) (*bases, error) {
	b := &bases{stores: stores, layers: map[string]*baseLayer{}}
	for _, s := range stores {
		files, err := s.open()
		if err != nil {
			return nil, err
		}
		b.files = append(b.files, files)
	}
	return b, nil
}

// layer finds a layer.
func (b *bases) layer(id string) (*baseLayer, error) {
	if l := b.layers[id]; l != nil {
		return l, nil
	}
	for n, files := range b.files {
		_, err := files.Lstat(path.Join(layout.OverlayDir, id))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", b.stores[n].Name, err)
		}
		l := &baseLayer{of: b, store: b.stores[n].Name, id: id, files: files}
		b.layers[id] = l
		return l, nil
	}
	return nil, fmt.Errorf("layer %s %w", id, ErrNoLayer)
}

// others returns the names of the other stores that have a layer.
func (b *bases) others(l *baseLayer) (names []string) {
	for n, files := range b.files {
		if _, err := files.Lstat(path.Join(layout.OverlayDir, l.id)); err == nil && files != l.files {
			names = append(names, b.stores[n].Name)
		}
	}
	return names
}

func (b *bases) close() {
	b.skeleton.close()
	for _, l := range b.layers {
		l.closeFile()
	}
}
