package source

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNoSuchImage is returned if a store, a layout or an archive has no image of a requested name.
var ErrNoSuchImage = fault.New(fault.Input, "has no image",
	"name it as it is there: by its whole name, or in a layout or an archive by its tag or digest")

// ContainersStorage are images of a store of containers/storage on this machine.
type ContainersStorage struct {
	// Path is the graph root of podman or CRI-O. If empty, /var/lib/containers/storage for root,
	// and ~/.local/share/containers/storage for others.
	Path string `yaml:"path,omitempty" jsonschema:"example=/var/lib/containers/storage"`
	// Images by their names there. If empty, all images with a name.
	Images []string `yaml:"images,omitempty" jsonschema:"example=quay.io/site/app:1.2"`
}

// set reads NAME, or [overlay@PATH]NAME as skopeo writes it.
func (c *ContainersStorage) set(text string) {
	text = strings.TrimPrefix(text, "containers-storage:")
	store, name, ok := strings.Cut(text, "]")
	if !ok || !strings.HasPrefix(store, "[") {
		c.Images = []string{text}
		return
	}
	_, path, _ := strings.Cut(store, "@")
	path, _, _ = strings.Cut(path, "+") // the run root follows
	c.Path, c.Images = path, []string{name}
}

// Validate implements Source.
func (c *ContainersStorage) Validate() error { return nil }

// PathFields implements Source.
func (c *ContainersStorage) PathFields() []*string { return []*string{&c.Path} }

// Read implements Source: it finds the requested images.
func (c *ContainersStorage) Read(context.Context, Options) (m Content, err error) {
	path := cmp.Or(c.Path, defaultStore())
	store, err := storage.OpenImageStore(path)
	if err != nil {
		return m, err
	}
	found := store.Images()
	if len(c.Images) > 0 {
		for _, name := range c.Images {
			if !slices.ContainsFunc(found, func(f storage.LocalImage) bool { return f.Name == name }) {
				return m, fmt.Errorf("image store %s: %w %s; it has %s", path, ErrNoSuchImage, name, namesOf(found))
			}
		}
		found = slices.DeleteFunc(found, func(f storage.LocalImage) bool { return !slices.Contains(c.Images, f.Name) })
	}
	err = m.addLocal(Location{Path: path}, "", found)
	return m, err
}

// defaultStore is podman's default graph root: containers-storage.conf(5).
func defaultStore() string {
	if os.Geteuid() == 0 {
		return "/var/lib/containers/storage"
	}
	data := cmp.Or(os.Getenv("XDG_DATA_HOME"), filepath.Join(environment.Home(), ".local/share"))
	return filepath.Join(data, "containers/storage")
}

// namesOf lists some names, for users who misspelt one.
func namesOf(found []storage.LocalImage) string {
	const some = 5
	var names []string
	for _, f := range found {
		names = append(names, cmp.Or(f.Name, f.Digest.String()))
	}
	slices.Sort(names)
	if len(names) > some {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:some], ", "), len(names)-some)
	}
	return cmp.Or(strings.Join(names, ", "), "none with a name")
}
