package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// image is the file of a store, read without mounting it.
type image struct {
	*squashfs.Reader
	file *os.File
}

func (i image) Close() error { return i.file.Close() }

func openStore(e stores.Extent) (stores.Image, error) {
	i, err := openImage(e)
	if err != nil {
		return nil, err
	}
	return i, nil
}

func openImage(e stores.Extent) (image, error) {
	f, err := os.Open(e.Path)
	if err != nil {
		return image{}, err
	}
	r, err := squashfs.OpenImage(io.NewSectionReader(f, e.Offset, e.Size), e.Size)
	if err != nil {
		return image{}, errors.Join(err, f.Close())
	}
	return image{r, f}, nil
}

// disc is a medium, or a file with what one holds.
type disc struct {
	*iso9660.Image
	file *os.File
}

func (d disc) Close() error { return d.file.Close() }

func (d disc) Extent(name string) (offset, size int64, err error) {
	f, err := d.Find(name)
	if err == nil && !f.InOnePiece() {
		err = fmt.Errorf("%s: it is in pieces", name)
	}
	if err != nil {
		return 0, 0, err
	}
	return f.Offset(), f.Size, nil
}

func openDisc(name string) (stores.Disc, error) {
	image, f, err := iso9660.OpenFile(name)
	if err != nil {
		return nil, err
	}
	return disc{image, f}, nil
}

// lockFile is there in every store.
const lockFile = "pinbox/pinbox.lock.json"

// writeCompacted writes stores as one. done is called with the bytes that were written,
// of all.
func writeCompacted(tmp string, done func(done, all int64)) func(context.Context, io.Writer, stores.CompactPlan) error {
	return func(ctx context.Context, out io.Writer, f stores.CompactPlan) error {
		var readers []*squashfs.Reader
		for _, e := range f.Stores {
			image, err := openImage(e)
			if err != nil {
				return err
			}
			defer image.Close()
			readers = append(readers, image.Reader)
		}
		plan, err := compose.NewCompaction(readers, compose.Keep{
			Image: func(id string, _ []string) bool { return f.Images[id] },
			Layer: func(id string, needed bool) bool { return needed || f.Layers[id] },
		})
		if err != nil {
			return err
		}
		files, err := ownFiles(f, plan.Needs)
		if err != nil {
			return err
		}
		newest, err := readers[len(readers)-1].Stat(lockFile)
		if err != nil {
			return err
		}
		compacted, err := plan.Compose(ctx, files, newest.ModTime(), tmp)
		if err != nil {
			return err
		}
		defer compacted.Close()
		return compacted.Write(ctx, out, func(written int64) { done(written, compacted.Size()) })
	}
}

// ownFiles are what a store says of itself.
func ownFiles(f stores.CompactPlan, needs []pinset.Need) ([]compose.File, error) {
	var lock, delta bytes.Buffer
	if err := f.Lock.Encode(&lock); err != nil {
		return nil, err
	}
	files := []compose.File{{Name: lockFile, Perm: 0o644, Content: lock.Bytes()}}
	for _, name := range slices.Sorted(maps.Keys(f.Sets)) {
		files = append(files, compose.File{Name: path.Join("pinbox/sets", name), Perm: 0o644, Content: []byte(f.Sets[name])})
	}
	if len(needs) == 0 {
		return files, nil
	}
	err := pinset.Delta{Version: pinset.DeltaVersion, Name: f.Name, Bases: []pinset.Base{}, Needs: needs}.Encode(&delta)
	return append(files, compose.File{Name: "pinbox/delta.json", Perm: 0o644, Content: delta.Bytes()}), err
}

// yield has the whole process let others go first: the scheduling of nice(2), and that
// of disks of ioprio_set(2). It may fail: then it is only faster than it need be.
func yield() {
	const process, idle = 1, 3 << 13
	threads, _ := os.ReadDir("/proc/self/task")
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, 19)
			_, _, _ = unix.Syscall(unix.SYS_IOPRIO_SET, process, uintptr(id), idle)
		}
	}
}
