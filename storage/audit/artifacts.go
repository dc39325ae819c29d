package audit

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"path"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// checkArtifacts checks the OCI artifacts. The index of a full store lists all of the lock, under all their names; that
// of a delta lists some. The files are exactly the blobs of these, with the sizes in the lock. Of the blobs, only
// manifests are read.
func (a *auditor) checkArtifacts() error {
	indexed, err := a.documents.Artifacts()
	if err != nil {
		return err
	}
	if len(indexed) == 0 {
		_, err := fs.Lstat(a.files, layout.ArtifactsDir)
		if len(a.content.Lock.Artifacts) > 0 && len(a.content.Delta.Bases) == 0 || !errors.Is(err, fs.ErrNotExist) {
			return invalid("%s: not the %d artifacts of the lock", layout.ArtifactsIndex, len(a.content.Lock.Artifacts))
		}
		return nil
	}
	names := map[string]layout.Artifact{}
	for _, i := range indexed {
		if _, twice := names[i.Name]; twice || a.content.Names[i.Name] != "" {
			return invalid("name %s: of another image or artifact, too", i.Name)
		}
		names[i.Name] = i
	}
	blobs := map[digest.Digest]int64{}
	for _, locked := range a.content.Lock.Artifacts {
		if err := a.checkArtifact(locked, names, blobs); err != nil {
			return err
		}
	}
	for name := range names {
		return invalid("the artifact %s is not in the lock", name)
	}
	return checkBlobs(a, blobs)
}

// checkArtifact checks an artifact of the lock, takes its names out of names, and adds its blobs with their sizes.
func (a *auditor) checkArtifact(
	locked pinset.LockedArtifact, names map[string]layout.Artifact, blobs map[digest.Digest]int64,
) error {
	m := locked.Manifest()
	if _, ok := names[locked.Pin]; !ok && len(a.content.Delta.Bases) > 0 {
		return nil // in a base
	}
	for _, name := range locked.Names() {
		i, ok := names[name]
		if !ok || i.Manifest != m.Digest || i.Size != m.Size || i.MediaType != m.MediaType {
			return invalid("%s does not list %s as the lock does", layout.ArtifactsIndex, name)
		}
		delete(names, name)
		a.content.Names[name] = m.Digest.Encoded()
	}
	text, err := readFile(a.files, layout.ArtifactBlob(m.Digest), layout.MaxDocumentBytes)
	if err != nil {
		return err
	}
	if digest.FromBytes(text) != m.Digest {
		return invalid("the manifest of %s has another digest", locked.Pin)
	}
	type blob struct {
		Digest digest.Digest `json:"digest"`
		Size   int64         `json:"size"`
	}
	var manifest struct {
		Config blob   `json:"config"`
		Layers []blob `json:"layers"`
	}
	if err := json.Unmarshal(text, &manifest); err != nil {
		return invalid("the manifest of %s: %w", locked.Pin, err)
	}
	want := map[digest.Digest]int64{m.Digest: m.Size}
	for _, b := range append(manifest.Layers, manifest.Config) {
		want[b.Digest] = b.Size
	}
	for _, b := range locked.Blobs {
		if size, ok := want[b.Digest]; !ok || size != b.Size {
			return invalid("the manifest of %s does not list the blob %s of the lock", locked.Pin, b.Digest)
		}
		blobs[b.Digest] = b.Size
		delete(want, b.Digest)
	}
	if len(want) > 0 {
		return invalid("the lock lists %d blobs too few of %s", len(want), locked.Pin)
	}
	return nil
}

// checkBlobs checks that the folders of artifacts have exactly these blobs.
func checkBlobs(a *auditor, blobs map[digest.Digest]int64) error {
	files := listing{}
	for d, size := range blobs {
		name := layout.ArtifactBlob(d)
		files[name] = file
		fi, err := fs.Lstat(a.files, name)
		if err != nil {
			return err
		}
		if fi.Size() != size {
			return invalid("%s: %d bytes, want %d", name, fi.Size(), size)
		}
	}
	above := path.Dir(layout.ArtifactBlobsDir)
	for dir, want := range map[string]listing{
		layout.ArtifactsDir: {layout.ArtifactsIndex: file, layout.ArtifactsVersion: file, above: folder},
		above:               {layout.ArtifactBlobsDir: folder}, layout.ArtifactBlobsDir: files,
	} {
		if err := a.checkFolder(dir, want, nil); err != nil {
			return err
		}
	}
	text, err := readFile(a.files, layout.ArtifactsVersion, layout.MaxDocumentBytes)
	if err == nil && string(text) != layout.ArtifactsVersionText {
		err = invalid("%s: %.64q", layout.ArtifactsVersion, text)
	}
	return err
}

// Blobs returns the sizes in bytes of the blobs of the OCI artifacts that a store has, by their digests.
func Blobs(files fs.FS) (map[digest.Digest]int64, error) {
	documents := layout.Open(files)
	indexed, err := documents.Artifacts()
	if err != nil || len(indexed) == 0 {
		return nil, err
	}
	lock, err := documents.Lock()
	if err != nil {
		return nil, err
	}
	has := map[string]bool{}
	for _, a := range indexed {
		has[a.Name] = true
	}
	sizes := map[digest.Digest]int64{}
	for _, a := range lock.Artifacts {
		for _, b := range a.Blobs {
			if has[a.Pin] {
				sizes[b.Digest] = b.Size
			}
		}
	}
	return sizes, nil
}

// Blob reads a blob of an OCI artifact, and compares its content with its digest. files is the graph root.
func Blob(ctx context.Context, files fs.FS, d digest.Digest) error {
	if err := d.Validate(); err != nil {
		return invalid("%q: %w", d, err)
	}
	f, err := files.Open(layout.ArtifactBlob(d))
	if err != nil {
		return err
	}
	defer f.Close()
	sum := d.Algorithm().Hash()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.CopyN(sum, f, 1<<20); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if got := digest.NewDigest(d.Algorithm(), sum); got != d {
		return invalid("%s: its content is %s", layout.ArtifactBlob(d), got)
	}
	return nil
}
