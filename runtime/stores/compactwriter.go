package stores

import (
	"bytes"
	"context"
	"io"
	"maps"
	"path"
	"slices"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/verity"
)

// WriteCompacted writes the stores of a plan to out as one store.
func WriteCompacted(ctx context.Context, out io.Writer, p CompactPlan) error {
	var readers []*squashfs.Reader
	for _, e := range p.Stores {
		store, err := openSquashfs(e)
		if err != nil {
			return err
		}
		defer store.Close()
		readers = append(readers, store.Reader)
	}
	names := map[string]string{} // the images that have them
	for _, img := range p.Lock.Images {
		for _, name := range append([]string{img.Pin}, img.Tags...) {
			names[name] = img.Config.Encoded()
		}
	}
	var blobs []string
	for _, b := range pinset.ArtifactBlobs(p.Lock.Artifacts) {
		blobs = append(blobs, layout.ArtifactBlob(b.Digest))
	}
	compaction, err := compose.NewCompaction(readers, compose.Filter{
		Name:  func(id, name string) bool { return names[name] == id },
		Image: func(id string, _ []string) bool { return p.Images[id] },
		Layer: func(id string, needed bool) bool { return needed || p.Layers[id] },
		Files: blobs,
	})
	if err != nil {
		return err
	}
	files, err := ownFiles(p, compaction.Needs)
	if err != nil {
		return err
	}
	newest, err := readers[len(readers)-1].Stat(layout.OwnLock)
	if err != nil {
		return err
	}
	compacted, err := compaction.Compose(ctx, files, newest.ModTime(), p.TempDir)
	if err != nil {
		return err
	}
	defer compacted.Close()
	return writeVerified(ctx, out, compacted, p.TempDir, func(written int64) {
		if p.Progress != nil {
			p.Progress(written, compacted.Size())
		}
	})
}

// writeVerified writes a store, and its hash tree behind it. It calls done with the bytes that were written so far.
func writeVerified(
	ctx context.Context, out io.Writer, store *compose.Composed, tempDir string, done func(written int64),
) error {
	scratch, err := atomicfile.Unnamed(tempDir)
	if err != nil {
		return err
	}
	defer scratch.Close()
	verified := verity.NewWriter(out, store.Size(), scratch)
	if err = store.Write(ctx, verified, done); err == nil {
		_, err = verified.Close()
	}
	return err
}

// ownFiles returns the files that describe a store: its lock, its sets and, if it needs layers
// of other stores, its delta.json.
func ownFiles(p CompactPlan, needs []pinset.Need) ([]compose.File, error) {
	var lock, delta bytes.Buffer
	if err := p.Lock.Encode(&lock); err != nil {
		return nil, err
	}
	files := []compose.File{{Name: layout.OwnLock, Perm: 0o644, Content: lock.Bytes()}}
	for _, name := range slices.Sorted(maps.Keys(p.Sets)) {
		files = append(files, compose.File{Name: path.Join(layout.OwnSets, name), Perm: 0o644, Content: []byte(p.Sets[name])})
	}
	if len(p.Lock.Artifacts) > 0 {
		files = append(files,
			compose.File{Name: layout.ArtifactsIndex, Perm: 0o644, Content: layout.RenderArtifacts(p.Lock.Artifacts)},
			compose.File{Name: layout.ArtifactsVersion, Perm: 0o644, Content: []byte(layout.ArtifactsVersionText)})
	}
	if len(needs) == 0 {
		return files, nil
	}
	err := pinset.Delta{Version: pinset.DeltaVersion, Bases: []pinset.Base{}, Needs: needs}.Encode(&delta)
	return append(files, compose.File{Name: layout.OwnDelta, Perm: 0o644, Content: delta.Bytes()}), err
}
