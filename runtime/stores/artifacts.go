package stores

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// LinkArtifacts makes dir, which has the folder artifacts, an artifact store of CRI-O with the OCI artifacts of the
// stores at these graph roots: an index of all, and links to their blobs. CRI-O 1.36 needs a folder that it can write
// to: it opens a lock there for writing, leaves out a store that is read-only when CRI-O starts, and panics if one is
// mounted later (go.podman.io/common, pkg/libartifact/store.go, with storage/pkg/lockfile).
func LinkArtifacts(dir string, roots []string) error {
	var all []layout.Artifact
	blobs, names := map[string]string{}, map[string]bool{}
	for _, root := range roots {
		found, err := layout.Open(os.DirFS(root)).Artifacts()
		if err != nil {
			return fmt.Errorf("%s: %w", root, err)
		}
		for _, a := range found {
			if !names[a.Name] { // CRI-O looks up a name in the first store that has it
				names[a.Name], all = true, append(all, a)
			}
		}
		if len(found) == 0 {
			continue
		}
		entries, err := os.ReadDir(filepath.Join(root, layout.ArtifactBlobsDir))
		if err != nil {
			return err
		}
		for _, e := range entries {
			if pinset.ValidID(e.Name()) {
				blobs[e.Name()] = filepath.Join(root, layout.ArtifactBlobsDir, e.Name())
			}
		}
	}
	links := filepath.Join(dir, layout.ArtifactBlobsDir)
	if _, err := os.Stat(links); len(all) == 0 && errors.Is(err, fs.ErrNotExist) {
		return nil // there never was one
	}
	// Other users may read artifacts, as they may images.
	if err := os.MkdirAll(links, 0o755); err != nil {
		return err
	}
	if err := link(links, blobs); err != nil {
		return err
	}
	for name, text := range map[string][]byte{
		layout.ArtifactsVersion: []byte(layout.ArtifactsVersionText), layout.ArtifactsIndex: layout.EncodeArtifacts(all),
	} {
		if _, err := atomicfile.Write(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return unlink(links, blobs)
}

// link makes the links that are missing or lead elsewhere, by their names in a folder.
func link(dir string, targets map[string]string) error {
	for name, target := range targets {
		path := filepath.Join(dir, name)
		if is, err := os.Readlink(path); err == nil && is == target {
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, path); err != nil {
			return err
		}
	}
	return nil
}

// unlink removes the links in a folder that have no target. Other files are CRI-O's.
func unlink(dir string, targets map[string]string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if targets[e.Name()] == "" && e.Type() == fs.ModeSymlink {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return err
}
