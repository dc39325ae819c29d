package format

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// BlobEncoding follows the encoding of layers in that of packs of files.
const BlobEncoding = "-file"

// composed is a store that package compose makes of packs. finish writes its file, which decides the format.
type composed struct {
	*compose.Store
	opts   Options
	out    *squashfs.Writer
	finish func(*squashfs.Image) (artifact.Store, error)
	// program is the pack of the program, or programErr why there is none, and programKey its key, from Fill until it is
	// added.
	program    *os.File
	programErr error
	programKey cache.Key
}

func newComposed(o Options, finish func(*squashfs.Image) (artifact.Store, error)) (_ *composed, err error) {
	c := &composed{opts: o, finish: finish}
	defer func() {
		if err != nil {
			_ = c.Abort() // it is always nil
		}
	}()
	if c.out, err = squashfs.NewWriter(o.Packing.Compressor.ImageOptions(o.ModTime)); err != nil {
		return nil, err
	}
	if c.Store, err = compose.NewStore(c.out, o.Packing.Compressor, o.ModTime, o.Dir); err != nil {
		return nil, err
	}
	if o.AddBases != nil {
		err = o.AddBases(c.Store)
	}
	return c, err
}

func (c *composed) Fill(ctx context.Context, client *storage.Client, images []storage.Resolved) error {
	var program sync.WaitGroup
	program.Go(c.packProgram)
	defer program.Wait()
	return client.Fill(ctx, c.Store, images, c.opts.Packing, c.opts.Hooks.Add)
}

// Reading reports the layers that are read to hooks.
func Reading(hooks progress.Hooks) func(storage.Reading) {
	if hooks.Layer == nil {
		return nil
	}
	return func(r storage.Reading) {
		repository, _, _ := strings.Cut(r.Image.String(), "@")
		name := fmt.Sprintf("%s %.7s", path.Base(repository), r.Layer.Encoded())
		hooks.Layer(progress.Layer{Name: name, Done: r.Done, Total: r.Size, Ended: r.Ended})
	}
}

// packProgram packs the program while layers are fetched: a link to a registry leaves cores idle. Add reports the
// error.
func (c *composed) packProgram() {
	if c.opts.Program == nil {
		return
	}
	if f, err := packable(File{Program: c.opts.Program}); err == nil {
		c.programKey = c.keyOf(f)
		c.program, c.programErr = c.packed(c.programKey, f)
	}
}

func (c *composed) Add(f File) error {
	switch {
	case f.Program != nil:
		return c.addProgram(f, c.Store)
	case f.Open != nil:
		return c.addPacked(f, c.Store)
	}
	return f.addTo(c.Store)
}

func (c *composed) addProgram(f File, stores ...*compose.Store) error {
	f, err := packable(f)
	if err != nil {
		return err
	}
	if err := c.addPacked(f, stores...); err != nil {
		return fmt.Errorf("%s %w", f.Program.Name(), err)
	}
	return nil
}

// packable sets how to read the program of a file, and its digest.
func packable(f File) (File, error) {
	fi, err := f.Program.Stat()
	if err != nil {
		return f, err
	}
	content := func() io.Reader { return io.NewSectionReader(f.Program, 0, fi.Size()) }
	f.Open = func() (io.ReadCloser, error) { return io.NopCloser(content()), nil }
	f.Digest, err = digest.FromReader(content())
	return f, err
}

func (c *composed) keyOf(f File) cache.Key {
	return cache.Key{Digest: f.Digest, Encoding: c.opts.Packing.Compressor.Encoding() + BlobEncoding}
}

// addPacked adds a file that is the same in every build to stores. The cache keeps it packed, like a layer.
func (c *composed) addPacked(f File, stores ...*compose.Store) error {
	key := c.keyOf(f)
	pack, err := c.begun(key)
	if pack == nil && err == nil {
		pack, err = c.packed(key, f)
	}
	if err != nil {
		return err
	}
	defer pack.Close() // each store closes its own
	size, err := pack.Stat()
	for _, store := range stores {
		if err == nil {
			err = addPack(store, f, pack, size.Size())
		}
	}
	return err
}

func addPack(store *compose.Store, f File, pack *os.File, size int64) error {
	own, err := storage.Duplicate(pack)
	if err != nil {
		return err
	}
	if err := store.AddPackedFile(f.Name, f.Perm, f.Digest, own, size); err != nil {
		return errors.Join(err, own.Close())
	}
	return nil
}

// begun returns the pack of the program, or why it could not be packed, once; nothing if key is not its key.
func (c *composed) begun(key cache.Key) (pack *os.File, err error) {
	if key == c.programKey {
		pack, err = c.program, c.programErr
		c.program, c.programErr = nil, nil
	}
	return pack, err
}

// packed returns the pack of a file, from the cache if that has it.
func (c *composed) packed(key cache.Key, f File) (*os.File, error) {
	if pack, ok := c.opts.Packing.Cache.Get(key); ok {
		return pack, nil
	}
	pack, err := c.pack(key, f)
	if errors.Is(err, storage.ErrResumed) {
		pack, err = c.pack(key, f)
	}
	return pack, err
}

// pack adds the pack of a file to the cache.
func (c *composed) pack(key cache.Key, f File) (*os.File, error) {
	return c.opts.Packing.Cache.Put(key, c.opts.Dir, func(out io.Writer) error {
		content, err := f.Open()
		if err != nil {
			return err
		}
		err = compose.PackFile(c.opts.Packing.Compressor, content, f.Digest, out)
		return errors.Join(err, content.Close())
	})
}

func (c *composed) Close() (artifact.Store, error) {
	top, err := c.Store.Close()
	if err != nil {
		return artifact.Store{}, err
	}
	image, err := c.out.Close(top)
	if err != nil {
		return artifact.Store{}, err
	}
	defer image.Close()
	return c.finish(image)
}

func (c *composed) Abort() error {
	if c.program != nil {
		_ = c.program.Close() // it was only read
	}
	if c.Store != nil {
		c.Store.Abort()
	}
	if c.out != nil {
		c.out.Abort()
	}
	return nil
}
