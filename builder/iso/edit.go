package iso

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// Errors of images that cannot be edited.
var (
	ErrEdited = fault.New(fault.Input, "pinbox has edited the image before",
		"name the base that it was made of")
	ErrHasConfig = fault.New(fault.Input, "the image has an Ignition config already",
		"spec.iso.existing: merge, or --merge, adds the appliance's config to it; --replace-config replaces it")
	ErrSameFile = fault.New(fault.Usage, "input and output are one file",
		"give another name with -o")
	ErrNotEdited = fault.New(fault.Input, "pinbox has not edited the image",
		"there is nothing to reset")
)

// UndoName is the added file with the original content of all changed areas.
const UndoName = "undo.gz"

// Edit of an image.
type Edit struct {
	// Ignition config to embed; nil keeps the present one. Force replaces a config that pinbox did
	// not embed.
	Ignition []byte
	Force    bool
	// Grow moves the file of the Ignition area to the end of the image, if it is too small there.
	Grow  bool
	Kargs KargsEdit
	// System is what the kernel arguments must be good for.
	System System
	// Architecture of the edit, as in GOARCH; "" for any.
	Architecture string
	// Additions to Dir.
	Additions []Addition
	// Private makes the image readable by its owner only, as the config has secrets.
	Private bool
	// Written is called with the number of bytes after each write; it may be nil.
	Written func(int)
}

// editor computes what an edit changes in an image.
type editor struct{ *Image }

// edit lays everything out, twice: the undo file has the original content of the areas that change,
// so a draft without it finds these areas first. Its own length then changes only values in them.
func (ed editor) edit(e Edit) (layout, error) {
	if err := ed.checkArchitecture(e.Architecture); err != nil {
		return layout{}, err
	}
	if _, _, err := ed.features(); err != nil {
		return layout{}, err
	}
	texts, moved, err := ed.texts(e)
	if err != nil {
		return layout{}, err
	}
	draft, err := ed.plan(append(slices.Clone(e.Additions), Addition{Name: UndoName}), moved)
	if err != nil {
		return layout{}, err
	}
	hybrid, _, _, err := ed.hybrid(draft.size)
	if err != nil {
		return layout{}, err
	}
	areas, err := ed.areas()
	if err != nil {
		return layout{}, err
	}
	back, err := ed.undo(slices.Concat(texts, draft.patches, hybrid, areas))
	if err != nil {
		return layout{}, err
	}
	reset := Addition{UndoName, int64(len(back)), bytes.NewReader(back)}
	l, err := ed.plan(append(slices.Clone(e.Additions), reset), moved)
	if err != nil {
		return layout{}, err
	}
	hybrid, tables, total, err := ed.hybrid(l.size)
	if err != nil {
		return layout{}, err
	}
	l.patches = slices.Concat(texts, l.patches, hybrid)
	l.chunks = append(l.chunks, tables...)
	l.size = max(total, l.size)
	return l, nil
}

// texts returns the changes in the areas that boot loaders and Ignition read.
func (ed editor) texts(e Edit) (patches []patch, moved movedFile, err error) {
	if e.Ignition != nil {
		if there, err := ed.Ignition(); err == nil && there != nil && !e.Force {
			return nil, moved, ErrHasConfig
		}
		var p patch
		if p, moved, err = ed.embed(e.Ignition, e.Grow); err != nil {
			return nil, moved, err
		}
		patches = append(patches, p)
	}
	k, err := ed.Kargs()
	if errors.Is(err, ErrNoKargs) && e.Kargs.isZero() {
		return patches, moved, nil
	}
	if err != nil {
		return nil, moved, err
	}
	line, err := e.Kargs.apply(k.Current)
	if err == nil {
		err = ed.checkKernelLines(k, line, e.System)
	}
	if err != nil || e.Kargs.isZero() {
		return patches, moved, err
	}
	more, err := k.edit(line)
	return append(patches, more...), moved, err
}

// areas returns the areas that other programs may edit later, such as coreos-installer.
func (ed editor) areas() (patches []patch, err error) {
	var all []Area
	if a, err := ed.IgnitionArea(); err == nil {
		all = append(all, a)
	}
	if k, err := ed.Kargs(); err == nil {
		for _, a := range k.areas {
			all = append(all, a.Area)
		}
	}
	for _, a := range all {
		content := make([]byte, a.Length)
		if _, err := ed.ReadAt(content, a.Offset); err != nil {
			return nil, err
		}
		patches = append(patches, patch{a.Offset, content})
	}
	return patches, nil
}

// write copies the first size bytes of the base, and applies the layout.
func write(
	ctx context.Context, base *os.File, size int64, out string, perm os.FileMode, l layout, written func(int),
) error {
	if err := checkOutput(out, l); err != nil {
		return err
	}
	f, err := atomicfile.CreateLarge(out, perm)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err = duplicate(ctx, f.File, base, size, written); err == nil {
		err = f.Truncate(size) // all blocks may be shared
	}
	if err == nil {
		err = finish(ctx, f, l, written)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", out, err) // not the temporary name of f
	}
	return nil
}

// checkOutput refuses an output that is one of the added files.
func checkOutput(out string, l layout) error {
	there, err := os.Stat(out)
	if err != nil {
		return nil // it does not exist
	}
	for _, c := range l.chunks {
		if f, ok := c.content.(*os.File); ok {
			if fi, err := f.Stat(); err == nil && os.SameFile(there, fi) {
				return fmt.Errorf("%s: %w", out, ErrSameFile)
			}
		}
	}
	return nil
}

// duplicate copies a file, and shares its blocks if the file system can.
func duplicate(ctx context.Context, to, from *os.File, limit int64, written func(int)) error {
	if clone(to, from) {
		return nil
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return err
	}
	const step = 64 << 20 // between two checks of ctx
	for done := int64(0); done < limit; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, min(step, limit-done)) // copy_file_range
		done += n
		if written != nil {
			written(int(n))
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyAt writes a chunk at its offset. The content must have the size of the chunk.
func copyAt(ctx context.Context, to *os.File, c chunk, written func(int)) error {
	if f, ok := c.content.(*os.File); ok {
		return copyData(ctx, to, f, c, written)
	}
	if _, err := to.Seek(c.offset, io.SeekStart); err != nil {
		return err
	}
	return copyN(ctx, to, c.content, c.size, written)
}

// copyData copies a file, and keeps its holes.
func copyData(ctx context.Context, to, from *os.File, c chunk, written func(int)) error {
	fi, err := from.Stat()
	if err != nil || fi.Size() != c.size {
		return fmt.Errorf("%s changed while it was added: %w", from.Name(), errors.Join(err, io.ErrUnexpectedEOF))
	}
	for at := int64(0); at < c.size; {
		start, err := unix.Seek(int(from.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // holes only
			return nil
		}
		if err != nil {
			start = at // the file system has no SEEK_DATA
		}
		end, err := unix.Seek(int(from.Fd()), start, unix.SEEK_HOLE)
		if err != nil {
			end = c.size
		}
		if _, err := from.Seek(start, io.SeekStart); err != nil {
			return err
		}
		if _, err := to.Seek(c.offset+start, io.SeekStart); err != nil {
			return err
		}
		if err := copyN(ctx, to, from, end-start, written); err != nil {
			return err
		}
		at = end
	}
	return nil
}

func copyN(ctx context.Context, to io.Writer, from io.Reader, size int64, written func(int)) error {
	const step = 64 << 20
	for done := int64(0); done < size; {
		if err := ctx.Err(); err != nil {
			return err
		}
		n, err := io.CopyN(to, from, min(step, size-done))
		done += n
		if written != nil {
			written(int(n))
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("an added file ends after %d of %d bytes: %w", done, size, err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// movedFile is a file of the base, in a folder of the root, that gets a larger content behind the end of the base;
// none if it has no name. Boot loaders and coreos-installer find it by its records.
type movedFile struct {
	name    string
	content []byte
}

// move returns the changes for the new place of a file, at a sector: its records in all trees.
func (ed editor) move(f movedFile, at int64) (patches []patch, err error) {
	size := uint32(len(f.content))
	for _, v := range ed.Volumes() {
		offset, err := ed.recordOffset(v, f.name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
		}
		patches = append(patches, patch{offset + 2, both32(uint32(at))}, patch{offset + 10, both32(size)})
	}
	return patches, nil
}

// recordOffset finds the record of a file in a folder of the root: ECMA-119, 9.1.
func (ed editor) recordOffset(v iso9660.Volume, name string) (int64, error) {
	folder, base := path.Split(name)
	dir, err := ed.find(v.Root, path.Clean(folder))
	if err != nil {
		return 0, err
	}
	r, err := ed.find(dir, base)
	if err != nil {
		return 0, err
	}
	content := make([]byte, dir.Size)
	if _, err := ed.ReadAt(content, int64(dir.Extent)*sector); err != nil {
		return 0, err
	}
	return int64(dir.Extent)*sector + int64(bytes.Index(content, r.Raw)), nil // it was read from there
}

// find finds a record in a directory.
func (ed editor) find(dir iso9660.Record, name string) (iso9660.Record, error) {
	records, err := ed.ReadDir(dir)
	for _, r := range records {
		if r.HasName(name) {
			return r, err
		}
	}
	if err == nil {
		err = iso9660.ErrNotFound
	}
	return iso9660.Record{}, err
}
