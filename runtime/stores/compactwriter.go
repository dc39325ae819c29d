package stores

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// WriteCompacted writes stores as one, with temporary files in the folder tmp. done is
// called with the bytes that were written, of all.
func WriteCompacted(tmp string, done func(done, all int64)) func(context.Context, io.Writer, CompactPlan) error {
	return func(ctx context.Context, out io.Writer, f CompactPlan) error {
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
		newest, err := readers[len(readers)-1].Stat(layout.OwnLock)
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
func ownFiles(f CompactPlan, needs []pinset.Need) ([]compose.File, error) {
	var lock, delta bytes.Buffer
	if err := f.Lock.Encode(&lock); err != nil {
		return nil, err
	}
	files := []compose.File{{Name: layout.OwnLock, Perm: 0o644, Content: lock.Bytes()}}
	for _, name := range slices.Sorted(maps.Keys(f.Sets)) {
		files = append(files, compose.File{Name: path.Join(layout.OwnSets, name), Perm: 0o644, Content: []byte(f.Sets[name])})
	}
	if len(needs) == 0 {
		return files, nil
	}
	err := pinset.Delta{Version: pinset.DeltaVersion, Name: f.Name, Bases: []pinset.Base{}, Needs: needs}.Encode(&delta)
	return append(files, compose.File{Name: layout.OwnDelta, Perm: 0o644, Content: delta.Bytes()}), err
}
