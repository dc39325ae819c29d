package artifact

import (
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/thin"
)

// Recipes describe what a thin delta consists of.
type Recipes struct {
	// Size is that of the thin delta, StoreSize that of the store that nodes make of it, in bytes.
	Size      int64 `json:"size"`
	StoreSize int64 `json:"storeSize"`
	// Layers are its layers, each once, in the order of the images.
	Layers []RecipeLayer `json:"layers"`
	// Largest are the files that take the most of it, the largest first.
	Largest []RecipeFile `json:"largest"`
}

// RecipeLayer is a layer of a thin delta.
type RecipeLayer struct {
	// Image is the pin of the first image that has the layer.
	Image  string        `json:"image"`
	DiffID digest.Digest `json:"diffID"`
	// Same are the files that a base has, Patched those that are made of similar ones, and Literal the others.
	Same    RecipeCount `json:"same"`
	Patched RecipeCount `json:"patched"`
	Literal RecipeCount `json:"literal"`
	// Headers are what a tar stream has besides the contents of files.
	Headers RecipeCount `json:"headers"`
}

// RecipeCount sums up files: their size, and what they take of the thin delta, about, in bytes.
type RecipeCount struct {
	Files  int64 `json:"files,omitempty"`
	Size   int64 `json:"size"`
	Packed int64 `json:"packed"`
}

// RecipeFile is a file of a layer.
type RecipeFile struct {
	// Image is the pin of the first image with the layer, and Path the path of the file in it.
	Image  string `json:"image"`
	Path   string `json:"path"`
	Size   int64  `json:"size"`
	Packed int64  `json:"packed"`
}

// ReadRecipes describes a thin delta. It is nil for anything else.
func ReadRecipes(of *release.Release) (*Recipes, error) {
	delta, err := of.Delta()
	if err != nil || delta.Thin == nil {
		return nil, err
	}
	lock, err := of.Lock()
	if err != nil {
		return nil, err
	}
	store, err := of.Store()
	if err != nil {
		return nil, err
	}
	recipes, err := thin.Open(thin.Store{Name: of.Name, File: store.Bytes(), Size: store.Size}, thin.Limits{})
	if err != nil {
		return nil, err
	}
	r := &Recipes{Size: store.Size, StoreSize: delta.Thin.StoreSize}
	r.describe(lock, recipes)
	return r, nil
}

func (r *Recipes) describe(lock pinset.Lock, recipes *thin.Reader) {
	byDiffID, image := map[digest.Digest]thin.Layer{}, map[digest.Digest]string{}
	for _, l := range recipes.Layers() {
		byDiffID[l.DiffID] = l
	}
	for _, img := range lock.Images {
		for _, locked := range img.Layers {
			l, ok := byDiffID[locked.DiffID]
			if !ok || image[l.DiffID] != "" {
				continue
			}
			image[l.DiffID] = img.Pin
			r.Layers = append(r.Layers, RecipeLayer{
				Image: img.Pin, DiffID: l.DiffID, Same: RecipeCount(l.Same), Patched: RecipeCount(l.Patched),
				Literal: RecipeCount(l.Literal), Headers: RecipeCount(l.Skeleton),
			})
		}
	}
	for _, f := range recipes.Largest() {
		r.Largest = append(r.Largest, RecipeFile{image[f.DiffID], f.Path, f.Size, f.Packed})
	}
}
