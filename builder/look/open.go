package look

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// Errors of stores.
var (
	ErrNoStore = fault.New(fault.Input, "it has no store that can be read",
		"name the folder, the ISO or the medium of an appliance or of a delta, or the file of its store")
	ErrNoLayer = fault.New(fault.Input, "a delta, and a layer that it needs is in no other store",
		"give --base once for each store that the delta needs, down to the appliance")
	ErrUnsigned = fault.New(fault.Input, "the sums do not cover the store as one file",
		"leave out --key; `pinbox verify` compares a store that is a folder")
)

// Images are those of an opened release, which is read by one goroutine.
type Images struct {
	// Images of the lock in the store.
	Images []pinset.LockedImage

	documents *layout.Store
	stores    []fs.FS // those of the bases, too
	opened    []io.Closer
	tmp       string // "" before it is needed
}

// Open opens releases, and the store of the first. The others are those that a delta needs; of a thin delta, the store
// that nodes have is made in a temporary file. With keys, the sums of all must be signed, and the stores are compared
// with them. The caller closes the Images.
func Open(ctx context.Context, names []string, keys signature.Keys, hooks progress.Hooks) (im *Images, err error) {
	im = &Images{}
	defer func() {
		if err != nil {
			err = errors.Join(err, im.Close())
		}
	}()
	var whole, thin []*release.Release
	for n, name := range names {
		r, err := release.Open(name, keys)
		if err != nil {
			return im, err
		}
		im.opened = append(im.opened, r)
		if !keys.IsEmpty() {
			if err := check(ctx, r, hooks); err != nil {
				return im, err
			}
		}
		files, err := filesOf(r)
		if err != nil {
			return im, err
		}
		records := layout.Open(files)
		d, err := records.Delta()
		if err == nil && n == 0 {
			var lock pinset.Lock
			lock, err = records.Lock()
			im.Images, im.documents = lock.Images, records
		}
		switch {
		case err != nil:
			return im, fmt.Errorf("%s: %w", r.Name, err)
		case d.Thin != nil:
			thin = append(thin, r)
		default:
			whole, im.stores = append(whole, r), append(im.stores, files)
		}
	}
	return im, im.rebuild(ctx, thin, whole, hooks)
}

// filesOf opens the store of a release, in any form.
func filesOf(r *release.Release) (files fs.FS, err error) {
	store, err := r.Whole()
	switch {
	case err != nil:
		return nil, err
	case store != nil:
		return store.Files()
	}
	if files, err = r.Files(); err == nil && files == nil {
		err = fmt.Errorf("%s: %w", r.Name, ErrNoStore)
	}
	return files, err
}

// Close closes the releases, and removes what was made.
func (im *Images) Close() (err error) {
	for _, o := range slices.Backward(im.opened) {
		err = errors.Join(err, o.Close())
	}
	if im.tmp != "" {
		err = errors.Join(err, os.RemoveAll(im.tmp))
	}
	return err
}

// rebuild makes the stores of thin deltas, each when all that it requires is there.
func (im *Images) rebuild(ctx context.Context, waiting, whole []*release.Release, hooks progress.Hooks) (err error) {
	if len(waiting) == 0 {
		return nil
	}
	if im.tmp, err = environment.TempDir("pinbox-thin-*"); err != nil {
		return err
	}
	var there []*release.Store
	for _, r := range whole {
		if s, err := r.Whole(); err == nil && s != nil { // a folder is no base of a delta
			there = append(there, s)
		}
	}
	for len(waiting) > 0 {
		n := slices.IndexFunc(waiting, func(r *release.Release) bool { return im.complete(r) })
		if n < 0 {
			return fmt.Errorf("%s: %w", waiting[0].Name, ErrNoLayer)
		}
		s, err := waiting[n].Whole()
		if err != nil {
			return err
		}
		hooks.Begin("rebuild "+s.Name, 0)
		if s, err = base.Rebuild(ctx, s, there, im.tmp, nil); err != nil {
			return err
		}
		im.opened, there = append(im.opened, s), append(there, s)
		files, err := s.Files()
		if err != nil {
			return err
		}
		im.stores, waiting = append(im.stores, files), slices.Delete(waiting, n, n+1)
	}
	return nil
}

// complete reports whether all layers that a thin delta requires are there.
func (im *Images) complete(r *release.Release) bool {
	d, err := r.Delta()
	return err == nil && !slices.ContainsFunc(d.Requires(), func(id string) bool { return im.storeOf(id) == nil })
}

// storeOf returns the store that has a layer, or nil.
func (im *Images) storeOf(id string) fs.FS {
	for _, files := range im.stores {
		if fi, err := fs.Lstat(files, folderOf(id)); err == nil && fi.IsDir() {
			return files
		}
	}
	return nil
}

func folderOf(id string) string { return path.Join(layout.OverlayDir, id, "diff") }

// layer is a layer of an image, and the store that has it.
type layer struct {
	base.Layer
	files fs.FS
}

// layers finds the layers of an image, the lowest first: those that its configuration lists.
func (im *Images) layers(img pinset.LockedImage) (all []layer, config []byte, err error) {
	id := img.Config.Encoded()
	if config, err = im.documents.Document(id, layout.ConfigKey(id)); err != nil {
		return nil, nil, missing(err)
	}
	if img.Config.Algorithm().FromBytes(config) != img.Config {
		return nil, nil, fmt.Errorf("%s: %w: its configuration is another one", img.Pin, release.ErrVerify)
	}
	chain, err := audit.Chain(config)
	if err != nil {
		return nil, nil, err
	}
	for _, l := range base.Chain(img) {
		files := im.storeOf(l.ID)
		if files == nil {
			return nil, nil, fmt.Errorf("%s: %w: %s", img.Pin, ErrNoLayer, l.DiffID)
		}
		all = append(all, layer{l, files})
	}
	if !slices.EqualFunc(all, chain, func(l layer, id string) bool { return l.ID == id }) {
		return nil, nil, fmt.Errorf("%s: %w: the lock lists other layers than its configuration", img.Pin, release.ErrVerify)
	}
	return all, config, nil
}

// View returns the files of the image that a text stands for: see Find.
func (im *Images) View(text string) (v View, err error) {
	img, err := Find(im.Images, text)
	if err != nil {
		return nil, err
	}
	layers, _, err := im.layers(img)
	for _, l := range slices.Backward(layers) {
		v = append(v, tree{l.files, folderOf(l.ID)})
	}
	return v, err
}

// missing is the error of what a store must have.
func missing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(release.ErrVerify, err)
	}
	return err
}

// check compares the store of a release with its sums, which were verified when it was opened with keys.
func check(ctx context.Context, r *release.Release, hooks progress.Hooks) error {
	sums, err := r.Sums()
	if err != nil {
		return err
	}
	want := sums[r.Names.Store]
	if want == "" {
		return fmt.Errorf("%s: %w", r.Name, ErrUnsigned)
	}
	f, err := r.StoreBytes()
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	defer f.Close()
	hooks.Begin("verify "+r.Names.Store, f.Size)
	got, _, err := artifact.SumReader(ctx, f, hooks)
	if err == nil && got != want {
		err = fmt.Errorf("%w: %s is not the one of the sums", release.ErrVerify, r.Names.Store)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.Name, err)
	}
	return nil
}
