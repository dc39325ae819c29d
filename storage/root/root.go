package root

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	cstorage "go.podman.io/storage"
	"go.podman.io/storage/types"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/layout"
)

// Store is a graph root that is being written. Its methods are not for concurrent use.
type Store struct {
	dir, run string
	modTime  time.Time
	library  cstorage.Store
	layers   map[string]compose.LayerInfo
	images   compose.Images
}

// New starts a graph root in the folder dir. The folder run is the library's run root, which the
// end of the store removes. Neither folder may exist. modTime is the modification time of files of
// AddFile. The caller ends the store with Close or Abort.
func New(dir, run string, modTime time.Time) (*Store, error) {
	for _, path := range []string{dir, run} {
		if err := os.Mkdir(path, 0o755); err != nil {
			return nil, err
		}
	}
	library, err := getStore(types.StoreOptions{
		GraphRoot: dir, RunRoot: run, GraphDriverName: "overlay",
		// Else the library makes the folder a mount point.
		GraphDriverOptions: []string{"overlay.skip_mount_home=true"},
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("containers/storage in %s: %w", dir, err), Unmount(run))
	}
	return &Store{
		dir: dir, run: run, modTime: modTime, library: library,
		layers: map[string]compose.LayerInfo{}, images: compose.Images{},
	}, nil
}

// getStore opens a store with only these options. The library reads storage.conf without using it,
// and fails if it is damaged; so getStore gives it an empty one.
func getStore(options types.StoreOptions) (cstorage.Store, error) {
	conf := filepath.Join(options.RunRoot, "storage.conf")
	_, err := environment.Prepare()
	err = errors.Join(err, os.MkdirAll(options.RunRoot, 0o700), os.WriteFile(conf, nil, 0o600))
	if err != nil {
		return nil, err
	}
	// The variables are restored, so that child processes do not read the empty file.
	for name, value := range map[string]string{"CONTAINERS_STORAGE_CONF": conf, "CONTAINERS_STORAGE_CONF_OVERRIDE": ""} {
		restore, err := setVariable(name, value)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	return cstorage.GetStore(options)
}

// Lookup returns what AddLayer has returned for a layer, and whether the store has the layer.
func (s *Store) Lookup(l compose.Layer) (compose.LayerInfo, bool) {
	info, ok := s.layers[layout.LayerID(l.Parent, l.DiffID)]
	return info, ok
}

// AddLayer unpacks a layer that the store does not have yet, over its parent. It compares the blob
// with the layer's digests.
func (s *Store) AddLayer(ctx context.Context, l compose.Layer, blob compose.Blob) (compose.LayerInfo, error) {
	id := layout.LayerID(l.Parent, l.DiffID)
	size, err := compose.ReadLayer(ctx, blob, func(r io.Reader) error {
		_, _, err := s.library.PutLayer(id, l.Parent, nil, "", false, &cstorage.LayerOptions{
			OriginalDigest: l.Digest, OriginalSize: &l.Size, UncompressedDigest: l.DiffID,
		}, r)
		return err
	})
	if err != nil {
		return compose.LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	diff := filepath.Join(s.dir, layout.OverlayDir, id, "diff")
	var top syscall.Stat_t
	if err := syscall.Lstat(diff, &top); err != nil {
		return compose.LayerInfo{}, fmt.Errorf("layer %s: %w", l.Digest, err)
	}
	inodes, err := countInodes(diff)
	s.layers[id] = compose.LayerInfo{
		ID: id, Size: size, Inodes: inodes,
		RootAttributes: compose.FormatRootAttributes(uint32(top.Mode)&0o7777, top.Uid, top.Gid), // Mode is narrower on macOS
	}
	return s.layers[id], err
}

// countInodes counts the inodes of a folder and of all files below it.
func countInodes(dir string) (n int64, err error) {
	linked := map[uint64]bool{}
	err = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		st := fi.Sys().(*syscall.Stat_t)
		if st.Nlink < 2 || d.IsDir() || !linked[st.Ino] {
			n++
		}
		if st.Nlink > 1 {
			linked[st.Ino] = true
		}
		return nil
	})
	return n, err
}

// AddImage adds an image, whose layers the store must have. Close writes one record for the names
// of the same image.
func (s *Store) AddImage(img compose.Image) { s.images.Add(img, nil) }

// AddFile adds a file that is not part of an image, and the folders of its path.
func (s *Store) AddFile(name string, perm uint32, content io.Reader) (err error) {
	path := filepath.Join(s.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	err = errors.Join(err, f.Chmod(fs.FileMode(perm)), f.Close())
	return errors.Join(err, os.Chtimes(path, s.modTime, s.modTime))
}

// Close writes the records of the images, unmounts everything and removes the run root.
func (s *Store) Close() error {
	records, err := s.images.Records()
	if err != nil {
		return errors.Join(err, s.Abort())
	}
	for _, rec := range records {
		options := cstorage.ImageOptions{CreationDate: rec.Created, Digest: rec.Digest}
		for _, d := range rec.BigData {
			content, err := d.Read()
			if err != nil {
				return errors.Join(err, s.Abort())
			}
			options.BigData = append(options.BigData, cstorage.ImageBigDataOption{
				Key: d.Key, Data: content, Digest: d.Digest,
			})
		}
		if _, err := s.library.CreateImage(rec.ID, rec.Names, rec.TopLayer, rec.Metadata, &options); err != nil {
			return errors.Join(fmt.Errorf("image %s: %w", rec.ID, err), s.Abort())
		}
	}
	return s.Abort()
}

// Abort shuts down the library, unmounts everything and removes the run root. It leaves the graph
// root as it is. After Close it does nothing.
func (s *Store) Abort() error {
	if s.library == nil {
		return nil
	}
	_, err := s.library.Shutdown(true)
	s.library = nil
	return errors.Join(err, Unmount(s.dir), Unmount(s.run), os.RemoveAll(s.run))
}
