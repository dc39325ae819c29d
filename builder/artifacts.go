package builder

import (
	"bytes"
	"context"
	"io"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// newArtifacts returns the OCI artifacts that not all bases of a delta have.
func newArtifacts(c base.Common, artifacts []storage.Resolved) []storage.Resolved {
	return slices.DeleteFunc(slices.Clone(artifacts), func(a storage.Resolved) bool {
		return c.HasArtifact(a.Artifact.Pin)
	})
}

// blobsOf returns the blobs of the artifacts, each once.
func blobsOf(artifacts []storage.Resolved) []pinset.LockedBlob {
	return pinset.ArtifactBlobs(locked(artifacts))
}

func locked(artifacts []storage.Resolved) (all []pinset.LockedArtifact) {
	for _, a := range artifacts {
		all = append(all, *a.Artifact)
	}
	return all
}

// artifactFiles are the files of the OCI artifacts: an OCI image layout, in which each blob is once.
func (w storeWriter) artifactFiles(ctx context.Context) (files []format.File) {
	if len(w.artifacts) == 0 {
		return nil
	}
	written := map[digest.Digest]bool{}
	for _, a := range w.artifacts {
		for n, b := range a.Artifact.Blobs {
			if written[b.Digest] {
				continue
			}
			written[b.Digest] = true
			open := func() (io.ReadCloser, error) {
				return a.OpenBlob(ctx, w.plan.client, b, w.packs, format.Reading(w.Hooks), w.Hooks.Add)
			}
			if n == 0 {
				open = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(a.Manifest)), nil }
			}
			files = append(files, format.File{Name: layout.ArtifactBlob(b.Digest), Perm: 0o644, Open: open, Digest: b.Digest})
		}
	}
	return append(files,
		format.File{Name: layout.ArtifactsIndex, Perm: 0o644, Content: layout.RenderArtifacts(locked(w.artifacts))},
		format.File{Name: layout.ArtifactsVersion, Perm: 0o644, Content: []byte(layout.ArtifactsVersionText)})
}
