package builder

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// ErrNodeBinary says that there is no pinbox-node that the nodes can run.
var ErrNodeBinary = errors.New("pinbox-node cannot be used")

// resolve asks the registries what the images of all sets are.
func resolve(ctx context.Context, o Options, client *storage.Client, in inputs) ([]storage.Resolved, error) {
	images := pinset.Union(in.sets...)
	if o.Hooks.Resolving != nil {
		o.Hooks.Resolving(len(images))
	}
	resolved, err := client.Resolve(ctx, images, o.Hooks.Resolved)
	if err != nil {
		return nil, err
	}
	for _, s := range in.sets {
		for _, img := range s.Images {
			in.note(img, pinset.Kind+"/"+s.Name)
		}
	}
	for i := range resolved {
		resolved[i].From, resolved[i].Tags = in.from[resolved[i].Image], in.tags[resolved[i].Image]
	}
	return resolved, nil
}

func makeLock(platform pinset.Platform, sets []pinset.Set, images []storage.Resolved) pinset.Lock {
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: platform}
	for _, s := range sets {
		lock.Sets = append(lock.Sets, s.Lock())
	}
	for _, img := range images {
		lock.Images = append(lock.Images, img.LockedImage)
	}
	return lock
}

// contents are what goes into a store.
type contents struct {
	sets    []pinset.Set
	images  []storage.Resolved
	carried []ignition.File
	binary  *os.File // nil in a delta
	// under is what a delta stands on, nil in a store that is whole.
	under *base.Common
}

// file is the name of the store's squashfs.
func (c contents) file() string {
	if c.under != nil {
		return artifact.DeltaStoreFile
	}
	return artifact.StoreFile
}

// toRead are the images with the layers that have to be read.
func (c contents) toRead() []storage.Resolved {
	if c.under != nil {
		return fresh(c.under, c.images)
	}
	return c.images
}

// storeOptions are those of the store's file, but for its time.
func (o Options) storeOptions() squashfs.Options {
	opts := squashfs.Options{BlockSize: o.Appliance.Spec.Store.BlockSize, Compression: o.Appliance.Spec.Store.Compression}
	_ = opts.Validate() // as that of the appliance was
	return opts
}

// writeStore composes and writes the store. The lock that it returns knows the
// unpacked sizes.
func writeStore(ctx context.Context, o Options, s *artifact.Stage, client *storage.Client, c contents) (lock pinset.Lock, file stored, err error) {
	if o.Appliance.Spec.Store.Format == spec.FormatDir {
		return writeRoot(ctx, o, s, client, c)
	}
	kept, err := o.Cache.open()
	if err != nil {
		return lock, file, err
	}
	for lost := map[string]bool{}; ; {
		lock, file, err = composeStore(ctx, o, s, client, kept, c)
		var damage *squashfs.Damage
		if !errors.As(err, &damage) {
			return lock, file, err
		}
		// What a disk has lost of what was kept is made again.
		pack, ok := damage.Source.(*os.File)
		if !ok {
			return lock, file, err
		}
		if forgotten, failed := kept.Forget(pack); !forgotten || failed != nil || lost[pack.Name()] {
			return lock, file, errors.Join(err, failed) // the second time it is no accident
		}
		lost[pack.Name()] = true
	}
}

func composeStore(ctx context.Context, o Options, s *artifact.Stage, client *storage.Client, kept cache.Cache, c contents) (lock pinset.Lock, file stored, err error) {
	modTime := o.stamp(c.images)
	pool, err := squashfs.NewPool(o.storeOptions())
	if err != nil {
		return lock, file, err
	}
	defer pool.Close()
	out, err := openStore(ctx, s, o, pool, modTime, c.file())
	if err != nil {
		return lock, file, err
	}
	defer out.Abort()
	store, err := compose.NewStore(out, pool, modTime, s.Dir)
	if err != nil {
		return lock, file, err
	}
	defer store.Abort()
	if o.Hooks.Filling != nil {
		o.Hooks.Filling(makeLock(o.Appliance.Spec.Platform, c.sets, c.toRead()).Totals())
	}
	if c.under != nil {
		if err := c.under.AddTo(store, makeLock(o.Appliance.Spec.Platform, c.sets, c.images).Images); err != nil {
			return lock, file, err
		}
	}
	if err := client.Fill(ctx, store, c.images, storage.Packing{Pool: pool, Cache: kept, Tmp: s.Dir}, o.Hooks.Read); err != nil {
		return lock, file, err
	}
	lock = makeLock(o.Appliance.Spec.Platform, c.sets, c.images)
	if err := addOwn(store, lock, c); err != nil {
		return lock, file, err
	}
	if c.binary != nil {
		if err := addProgram(store, pool, kept, c.binary, s.Dir); err != nil {
			return lock, file, err
		}
	}
	root, err := store.Close()
	if err != nil {
		return lock, file, err
	}
	file, err = out.finish(root)
	return lock, file, err
}

// fileAdder is a store that takes files beside the storage tree.
type fileAdder interface {
	AddFile(name string, perm uint32, content io.Reader) error
}

// addOwn puts pinbox's folder into the store: what a node needs to know.
func addOwn(store fileAdder, lock pinset.Lock, c contents) error {
	var b bytes.Buffer
	if err := lock.Encode(&b); err != nil {
		return err
	}
	if err := store.AddFile(path.Join(artifact.OwnDir, artifact.LockFile), 0o644, &b); err != nil {
		return err
	}
	for _, s := range c.sets {
		if err := store.AddFile(path.Join(artifact.OwnDir, "sets", pinset.FileName(s.Name)), 0o644, bytes.NewReader(s.Render())); err != nil {
			return err
		}
	}
	if c.under != nil {
		var b bytes.Buffer
		if err := c.under.Delta.Encode(&b); err != nil {
			return err
		}
		if err := store.AddFile(path.Join(artifact.OwnDir, artifact.DeltaFile), 0o644, &b); err != nil {
			return err
		}
	}
	for _, f := range c.carried {
		if err := store.AddFile(path.Join(ignition.FilesDir, f.Path), 0o600, bytes.NewReader(f.Content)); err != nil {
			return err
		}
	}
	return nil
}

// nodeProgram is what a node runs.
const nodeProgram = artifact.OwnDir + "/pinbox-node"

// addProgram puts it into the store. It is the same in every build, so it is packed
// once, like a layer.
func addProgram(store *compose.Store, pool *squashfs.Pool, kept cache.Cache, binary *os.File, tmp string) error {
	fi, err := binary.Stat()
	if err != nil {
		return err
	}
	content := func() io.Reader { return io.NewSectionReader(binary, 0, fi.Size()) }
	sum, err := digest.FromReader(content())
	if err != nil {
		return err
	}
	key := cache.Key{Digest: sum, Form: pool.Form() + "-file"}
	pack, ok := kept.Get(key)
	if !ok {
		pack, err = kept.Put(key, tmp, func(out io.Writer) error {
			again := digest.SHA256.Digester()
			err := compose.PackFile(pool, io.TeeReader(content(), again.Hash()), out)
			if err == nil && again.Digest() != sum {
				err = fmt.Errorf("%w: %s was changed while it was read", ErrNodeBinary, binary.Name())
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	size, err := pack.Stat()
	if err == nil {
		err = store.AddPackedFile(nodeProgram, 0o755, pack, size.Size())
	}
	if err != nil {
		_ = pack.Close() // it was only read
	}
	return err
}

// stamp is the time of files that are no image's own: it depends on nothing but the
// images, if none is asked for.
func (o Options) stamp(images []storage.Resolved) time.Time {
	if !o.ModTime.IsZero() {
		return o.ModTime
	}
	t := time.Unix(0, 0)
	for _, img := range images {
		if img.Created.After(t) {
			t = img.Created
		}
	}
	return t
}

var elfMachines = map[elf.Machine]string{
	elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64", elf.EM_PPC64: "ppc64le", elf.EM_S390: "s390x", elf.EM_RISCV: "riscv64",
}

// openNodeBinary finds the pinbox-node for the nodes' architecture.
func openNodeBinary(o Options) (*os.File, error) {
	name := o.Appliance.Spec.Node.Binary
	if name == "" {
		name = o.NodeBinary
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNodeBinary, err)
	}
	_, arch, _ := o.Appliance.Spec.Platform.Split()
	head, err := elf.NewFile(f)
	switch {
	case err != nil:
		err = fmt.Errorf("%w: %s is no Linux program (%w)", ErrNodeBinary, name, err)
	case elfMachines[head.Machine] != arch:
		err = fmt.Errorf("%w: %s is for %s, the appliance for %s", ErrNodeBinary, name, elfMachines[head.Machine], arch)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

func isoPath(o Options) string {
	if o.Appliance.Spec.ISO.Base == "" {
		return ""
	}
	return filepath.Join(o.Out, artifact.ISOFile)
}
