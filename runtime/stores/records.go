package stores

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/opencontainers/go-digest"
)

// record is what matters here of a layer in containers/storage's layers.json:
// the type Layer in its layers.go.
type record struct {
	ID         string         `json:"id"`
	Parent     string         `json:"parent"`
	Compressed digest.Digest  `json:"compressed-diff-digest"`
	Plain      digest.Digest  `json:"diff-digest"`
	Flags      map[string]any `json:"flags"`
}

// named is an image or a container in its images.json and containers.json: the types
// Image in images.go and Container in containers.go.
type named struct {
	ID    string   `json:"id"`
	Names []string `json:"names"`
	// Layer of a container, or the top one of an image.
	Layer string `json:"layer"`
	// Image of a container.
	Image string `json:"image"`
}

func (n named) title() string {
	if len(n.Names) > 0 {
		return n.Names[0]
	}
	return n.ID[:min(12, len(n.ID))]
}

// records are those of a store.
type records struct {
	layers             []record
	images, containers []named
}

// readRecords reads what there is. Volatile records are of what goes with a reboot.
func readRecords(store fs.FS) (r records, err error) {
	var errs [3]error
	r.layers, errs[0] = list[record](store, "overlay-layers/layers.json", "overlay-layers/volatile-layers.json")
	r.images, errs[1] = list[named](store, "overlay-images/images.json")
	r.containers, errs[2] = list[named](store, "overlay-containers/containers.json", "overlay-containers/volatile-containers.json")
	return r, errors.Join(errs[:]...)
}

// layer says whether the store has one.
func (r records) layer(id string) bool {
	return slices.ContainsFunc(r.layers, func(l record) bool { return l.ID == id })
}

// readMain reads the records of CRI-O's own store. One that is not there, perhaps since
// its disk is not, is not one that uses nothing.
func readMain(root string) (records, error) {
	_, err := os.Stat(filepath.Join(root, "overlay-layers"))
	var r records
	if err == nil {
		r, err = readRecords(os.DirFS(root))
	}
	if err != nil {
		return records{}, fmt.Errorf("CRI-O's own store %s: %w", root, err)
	}
	return r, nil
}

// list reads the records of several files; one that is not there has none.
func list[T any](store fs.FS, names ...string) (all []T, err error) {
	for _, name := range names {
		content, err := fs.ReadFile(store, name)
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0 {
			continue
		}
		if err != nil {
			return nil, err
		}
		var more []T
		if err := json.Unmarshal(content, &more); err != nil {
			return nil, fmt.Errorf("records %s: %w", name, err)
		}
		all = append(all, more...)
	}
	return all, nil
}
