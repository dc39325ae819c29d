package base

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/root"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

// Store is the squashfs of a store in an open file or device.
type Store struct {
	Name string
	root.StoreFile
	open *os.File
}

// OpenStore opens the store of a folder, an ISO or a medium, or the one that is mounted at a folder. The caller closes
// it.
func OpenStore(name string) (s Store, err error) {
	s.Name = name
	if _, failed := os.Stat(filepath.Join(name, layout.OwnLock)); failed == nil {
		s.File, err = mountedDevice(name)
	} else {
		s.StoreFile, err = artifact.FindStore(name)
	}
	if err == nil && s.File == "" {
		err = ErrNoContents
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", name, err)
	}
	if s.open, err = input.Medium(s.File); err != nil {
		return s, err
	}
	if s.Size == 0 { // a device
		s.Size, err = s.open.Seek(0, io.SeekEnd)
	}
	return s, err
}

// mountedDevice returns the device that is mounted at a folder; "" if none is: proc_pid_mountinfo(5).
func mountedDevice(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", err
	}
	device := ""
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		after := slices.Index(fields, "-")
		if after > 4 && len(fields) > after+2 && fields[4] == dir && fields[after+1] == "squashfs" {
			device = fields[after+2]
		}
	}
	return device, nil
}

// OpenStoreFile opens a store at a position of a file.
func OpenStoreFile(at root.StoreFile, name string) (s Store, err error) {
	s = Store{Name: name, StoreFile: at}
	s.open, err = input.Medium(at.File)
	return s, err
}

// Close closes the file.
func (s Store) Close() error {
	if s.open == nil {
		return nil
	}
	return s.open.Close()
}

// Thin returns the store for package thin.
func (s Store) Thin() thin.Store {
	return thin.Store{Name: s.Name, File: io.NewSectionReader(s.open, s.Offset, s.Size), Size: s.Size}
}

// Image opens the squashfs, for one goroutine.
func (s Store) Image() (*squashfs.Reader, error) {
	files, err := squashfs.OpenImage(io.NewSectionReader(s.open, s.Offset, s.Size), s.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name, err)
	}
	return files, nil
}

// delta returns the description of a delta; zero if the store is not one of a delta.
func (s Store) delta() (d pinset.Delta, err error) {
	files, err := s.Image()
	if err != nil {
		return d, err
	}
	if d, err = layout.Open(files).Delta(); err != nil {
		err = fmt.Errorf("%s: %w", s.Name, err)
	}
	return d, err
}

func (s Store) eachLayer(visit func(layout.Layer)) error {
	files, err := s.Image()
	if err != nil {
		return err
	}
	if err := layout.Open(files).Layers(func(l layout.Layer) error {
		visit(l)
		return nil
	}); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	return nil
}

// Rebuild makes the store of a thin delta, as a node does, in a file without a name in the folder tmp. Bases are the
// stores in which contents are looked for. read is called with the bytes of each part of a layer's tar stream; it
// may be nil.
func (s Store) Rebuild(ctx context.Context, bases []Store, tmp string, read func(int)) (whole Store, err error) {
	files, err := s.Image()
	if err != nil {
		return whole, err
	}
	recipes, err := thin.Open(s.Thin(), thin.Limits{})
	if err != nil {
		return whole, err
	}
	records := layout.Open(files)
	lock, err := records.Lock()
	if err != nil {
		return whole, fmt.Errorf("%s: %w", s.Name, err)
	}
	d, err := records.Delta()
	if err != nil {
		return whole, fmt.Errorf("%s: %w", s.Name, err)
	}
	var stores []thin.Store
	for _, b := range bases {
		stores = append(stores, b.Thin())
	}
	d.Thin = nil
	store, err := compose.Rebuild{
		Documents: files, Lock: lock, Delta: d, TempDir: tmp,
		Open: func(ctx context.Context, diffID digest.Digest, blocks *squashfs.BlockCache) (io.ReadCloser, error) {
			l, err := recipes.Layer(ctx, diffID, stores, blocks)
			return counted{l, read}, err
		},
	}.Compose(ctx)
	if err != nil {
		return whole, fmt.Errorf("%s: %w", s.Name, err)
	}
	defer store.Close()
	f, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return whole, err
	}
	at := root.StoreFile{File: fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.Fd()), Size: store.Size()}
	whole = Store{Name: s.Name, StoreFile: at, open: f}
	if err := store.Write(ctx, f, func(int64) {}); err != nil {
		return Store{}, errors.Join(err, f.Close())
	}
	return whole, nil
}

// counted reports what is read.
type counted struct {
	io.ReadCloser
	read func(int)
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if c.read != nil {
		c.read(n)
	}
	return n, err
}
