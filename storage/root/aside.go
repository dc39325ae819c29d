package root

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/storage/pkg/lockfile"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/layout"
)

// Aside are records of a main store that are set aside, since a layer below them is in no store any more. With one
// such record of an image, the library lists no image at all. CRI-O removes folders without a record when it starts
// (GarbageCollect in go.podman.io/storage). So those of the images are in AsideDir meanwhile, and those of the layers
// have another ID, with a record that says nothing else: they stay in their parent, which may be a mount of its own.
type Aside struct {
	Images []json.RawMessage `json:"images,omitempty"`
	Layers []json.RawMessage `json:"layers,omitempty"`
}

// AsideDir is the folder of the images that are set aside, below the graph root.
const AsideDir = "pinbox-aside"

// asideID is the ID of a layer while it is set aside.
func asideID(layer string) string {
	return digest.FromString("set aside by pinbox: " + layer).Encoded()
}

// placeholder is the record of a layer that is set aside: without its digests, by which a pull would find it.
func placeholder(layer string) head {
	id := asideID(layer)
	return head{ID: id, text: json.RawMessage(`{"id":"` + id + `","created":"1970-01-01T00:00:00Z"}`)}
}

// IsEmpty reports whether nothing is set aside.
func (a Aside) IsEmpty() bool { return len(a.Images)+len(a.Layers) == 0 }

// AsideImage is an image that is set aside, or has to be.
type AsideImage struct {
	ID    string
	Names []string
	// Missing is the layer that no store has.
	Missing string
}

// head has the fields of a record of an image, a layer or a container that matter here.
type head struct {
	ID     string          `json:"id"`
	Names  []string        `json:"names"`
	Layer  string          `json:"layer"`
	Parent string          `json:"parent"`
	text   json.RawMessage // the whole record
}

// records are those of a main store.
type records struct{ images, layers, containers []head }

// missing returns a function that returns the layer below another one, or that one, which neither the store nor
// another one has; "" if there is none.
func (r records) missing(has func(layer string) bool) func(layer string) string {
	parents := map[string]string{}
	for _, l := range r.layers {
		parents[l.ID] = l.Parent
	}
	return func(layer string) string {
		for range len(parents) + 1 { // no cycle is longer
			parent, own := parents[layer]
			switch {
			case !own && layer != "" && !has(layer):
				return layer
			case !own:
				return ""
			}
			layer = parent
		}
		return layer
	}
}

// split divides the records into those that stay, and those of images and layers that stand on a missing layer. The
// layers of containers stay: the library removes them with their containers.
func (r records) split(has func(layer string) bool) (stay records, aside records, images []AsideImage) {
	missing, ofContainer := r.missing(has), map[string]bool{}
	for _, c := range r.containers {
		ofContainer[c.Layer] = true
	}
	for _, l := range r.layers {
		if missing(l.ID) == "" || ofContainer[l.ID] {
			stay.layers = append(stay.layers, l)
			continue
		}
		aside.layers = append(aside.layers, l)
	}
	for _, i := range r.images {
		if missing := missing(i.Layer); missing != "" {
			aside.images = append(aside.images, i)
			images = append(images, AsideImage{i.ID, i.Names, missing})
			continue
		}
		stay.images = append(stay.images, i)
	}
	return stay, aside, images
}

// Broken returns the images of the main store at a graph root that stand on a layer which neither it nor another
// store has. It changes nothing, and takes no lock.
func Broken(graphRoot string, has func(layer string) bool) ([]AsideImage, error) {
	r, err := readRecords(graphRoot)
	if err != nil {
		return nil, err
	}
	_, _, images := r.split(has)
	return images, nil
}

// IsBroken reports whether SetAside has something to do.
func IsBroken(graphRoot string, has func(layer string) bool) (bool, error) {
	r, err := readRecords(graphRoot)
	_, aside, _ := r.split(has)
	return err == nil && len(aside.images)+len(aside.layers) > 0, err
}

// SetAside takes the records of images and layers that stand on missing layers out of the main store at a graph root.
// keep stores them first, with those that were set aside before: so a process may be killed at any point, and the
// next one completes its work. CRI-O must not run.
func SetAside(
	ctx context.Context, graphRoot string, has func(layer string) bool, before Aside, keep func(Aside) error,
) error {
	if broken, err := IsBroken(graphRoot, has); err != nil || !broken {
		return err
	}
	return locked(ctx, graphRoot, func(layers, images *lockfile.LockFile) error {
		r, err := readRecords(graphRoot)
		if err != nil {
			return err
		}
		stay, aside, _ := r.split(has)
		all := Aside{Images: merge(aside.images, before.Images), Layers: merge(aside.layers, before.Layers)}
		if err := keep(all); err != nil {
			return err
		}
		for _, i := range aside.images {
			if err := moveImage(graphRoot, i.ID, "", AsideDir); err != nil {
				return err
			}
		}
		if len(aside.images) > 0 {
			if err := write(graphRoot, layout.ImagesFile, images, stay.images); err != nil {
				return err
			}
		}
		s := setAside{graphRoot: graphRoot, records: r}
		for _, l := range aside.layers {
			if !find(stay.layers, asideID(l.ID)) {
				stay.layers = append(stay.layers, placeholder(l.ID))
			}
		}
		s.records.layers = append(slices.Clone(stay.layers), aside.layers...)
		return s.rename(layers, aside.layers, asideOf, stay.layers)
	})
}

// PutBack puts the records back of which all layers are in a store again, also while CRI-O runs: it reads them again,
// as after a pull by podman. linked reports whether another store has a link name of a layer. What the store has
// again by a pull is removed. left is what goes on to be set aside, and changed reports whether the caller has to
// store that.
func PutBack(
	ctx context.Context, graphRoot string, has, linked func(string) bool, aside Aside,
) (left Aside, changed bool, err error) {
	if aside.IsEmpty() {
		return aside, false, nil
	}
	err = locked(ctx, graphRoot, func(layersLock, imagesLock *lockfile.LockFile) error {
		r, err := readRecords(graphRoot)
		if err != nil {
			return err
		}
		s := setAside{graphRoot: graphRoot, records: r, has: has, linked: linked}
		if left.Layers, err = s.layers(layersLock, aside.Layers); err == nil {
			left.Images, err = s.images(imagesLock, aside.Images)
		}
		changed = len(left.Layers) < len(aside.Layers) || len(left.Images) < len(aside.Images)
		return err
	})
	return left, changed, err
}

// setAside are the records of a store, to which those that were set aside come back.
type setAside struct {
	graphRoot   string
	records     records
	has, linked func(string) bool
}

// layers puts layers back, each over its parent, and returns those that have to wait.
func (s *setAside) layers(lock *lockfile.LockFile, aside []json.RawMessage) (left []json.RawMessage, err error) {
	waiting, err := heads(aside)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var back []head
	done := map[string]bool{} // the placeholders that are not needed any more
	for again := true; again; {
		again = false
		var rest []head
		for _, l := range waiting {
			own, folder, moved := find(s.records.layers, l.ID), s.exists("overlay", l.ID), s.exists("overlay", asideID(l.ID))
			switch {
			case own && folder, !own && !moved: // it was pulled again, or not moved yet, or the store was wiped
				done[asideID(l.ID)] = true
			case own: // a process was killed
				back, done[asideID(l.ID)] = append(back, l), true
			case s.complete(l.Parent) && s.links(l.ID):
				s.records.layers, back, again = append(s.records.layers, l), append(back, l), true
				done[asideID(l.ID)] = true
			default:
				rest = append(rest, l)
			}
		}
		waiting = rest
	}
	for _, l := range waiting {
		left = append(left, l.text)
	}
	if len(done) == 0 {
		return left, nil
	}
	after := slices.DeleteFunc(slices.Clone(s.records.layers), func(l head) bool { return done[l.ID] })
	if err := s.rename(lock, back, func(id string) (from, to string) { return asideID(id), id }, after); err != nil {
		return nil, err
	}
	s.records.layers = after
	for id := range done { // what was pulled again
		err = errors.Join(err, s.remove(id))
	}
	return left, err
}

// asideOf is from the ID of a layer to the one that it has while it is set aside.
func asideOf(id string) (from, to string) { return id, asideID(id) }

// rename gives the files of layers other IDs. Meanwhile there are records of both, so that CRI-O removes nothing,
// whenever the process is killed; afterwards there are the records after.
func (s *setAside) rename(
	lock *lockfile.LockFile, layers []head, ids func(string) (from, to string), after []head,
) error {
	if len(layers) > 0 {
		if err := write(s.graphRoot, layout.LayersFile, lock, s.records.layers); err != nil {
			return err
		}
	}
	for _, l := range layers {
		from, to := ids(l.ID)
		olds := pathsOfLayer(from)
		for n, path := range pathsOfLayer(to) {
			if !s.exists(olds[n]) {
				continue // it was renamed before, or there is no such file
			}
			if err := replace(filepath.Join(s.graphRoot, olds[n]), filepath.Join(s.graphRoot, path)); err != nil {
				return err
			}
		}
	}
	return write(s.graphRoot, layout.LayersFile, lock, after)
}

// remove removes the files of a layer, and the link to it.
func (s *setAside) remove(id string) error {
	var errs []error
	if link, err := os.ReadFile(filepath.Join(s.graphRoot, "overlay", id, "link")); err == nil {
		errs = append(errs, os.RemoveAll(filepath.Join(s.graphRoot, "overlay/l", filepath.Base(string(link)))))
	}
	for _, path := range pathsOfLayer(id) {
		errs = append(errs, os.RemoveAll(filepath.Join(s.graphRoot, path)))
	}
	return errors.Join(errs...)
}

// images puts images back, and returns those that have to wait. A name that another image has got stays there.
func (s *setAside) images(lock *lockfile.LockFile, aside []json.RawMessage) (left []json.RawMessage, err error) {
	waiting, err := heads(aside)
	if err != nil {
		return nil, err
	}
	var back []head
	for _, i := range waiting {
		switch {
		case find(s.records.images, i.ID):
			err = errors.Join(err, s.settle(i.ID))
		case !s.exists(AsideDir, layout.ImagesDir, i.ID): // the store was wiped
		case s.complete(i.Layer):
			var failed error
			i.text, failed = without(i, s.records.images)
			err = errors.Join(err, failed)
			s.records.images, back = append(s.records.images, i), append(back, i)
		default:
			left = append(left, i.text)
		}
	}
	if err == nil && len(back) > 0 {
		err = write(s.graphRoot, layout.ImagesFile, lock, s.records.images)
	}
	for _, i := range back {
		if err == nil {
			err = s.settle(i.ID)
		}
	}
	return left, err
}

// settle moves the folder of an image with a record back, or removes it if the image was pulled again.
func (s *setAside) settle(image string) error {
	if !s.exists(layout.ImagesDir, image) {
		return moveImage(s.graphRoot, image, AsideDir, "")
	}
	return os.RemoveAll(filepath.Join(s.graphRoot, AsideDir, layout.ImagesDir, image))
}

// pathsOfLayer are the files that a layer may have, below the graph root.
func pathsOfLayer(id string) []string {
	return []string{filepath.Join("overlay", id), layout.TarSplitFile(id), filepath.Join(layout.LayersDir, id)}
}

func (s *setAside) exists(path ...string) bool {
	_, err := os.Lstat(filepath.Join(append([]string{s.graphRoot}, path...)...))
	return err == nil
}

// moveImage moves the folder of an image between folders below the graph root, unless it was moved before.
func moveImage(graphRoot, id, from, to string) error {
	target := filepath.Join(graphRoot, to, layout.ImagesDir, id)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	source := filepath.Join(graphRoot, from, layout.ImagesDir, id)
	if _, err := os.Lstat(source); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return replace(source, target)
}

// replace renames a file or a folder, also onto one of an earlier time.
func replace(source, target string) error {
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	return os.Rename(source, target)
}

// complete reports whether a layer and all below it are in a store.
func (s *setAside) complete(layer string) bool { return s.records.missing(s.has)(layer) == "" }

// links reports whether the link names by which a layer refers to those below it lead to layers: a pull gives a layer
// another link name than pinbox.
func (s *setAside) links(layer string) bool {
	lower, err := os.ReadFile(filepath.Join(s.graphRoot, "overlay", asideID(layer), "lower"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist) // the lowest
	}
	for _, link := range strings.Split(strings.TrimSpace(string(lower)), ":") {
		if !s.exists("overlay", link) && !s.linked(filepath.Base(link)) {
			return false
		}
	}
	return true
}

// without is the record of an image without the names that others have.
func without(i head, others []head) (json.RawMessage, error) {
	names := slices.DeleteFunc(slices.Clone(i.Names), func(name string) bool {
		return slices.ContainsFunc(others, func(o head) bool { return slices.Contains(o.Names, name) })
	})
	if len(names) == len(i.Names) {
		return i.text, nil
	}
	fields := map[string]json.RawMessage{}
	err := json.Unmarshal(i.text, &fields)
	if err == nil {
		fields["names"], err = json.Marshal(names)
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

func find(all []head, id string) bool {
	return slices.ContainsFunc(all, func(h head) bool { return h.ID == id })
}

// merge adds those that were set aside before and are not among the records.
func merge(now []head, before []json.RawMessage) (all []json.RawMessage) {
	for _, h := range now {
		all = append(all, h.text)
	}
	old, _ := heads(before) // they were read before
	for _, h := range old {
		if !find(now, h.ID) {
			all = append(all, h.text)
		}
	}
	return all
}

// Describe returns the images that are set aside.
func (a Aside) Describe() (all []AsideImage) {
	images, _ := heads(a.Images)
	for _, i := range images {
		all = append(all, AsideImage{ID: i.ID, Names: i.Names})
	}
	return all
}

func heads(texts []json.RawMessage) (all []head, err error) {
	for _, text := range texts {
		h := head{text: text}
		if err := json.Unmarshal(text, &h); err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	return all, nil
}

// readRecords reads the records of a main store. A file that is missing has none.
func readRecords(graphRoot string) (r records, err error) {
	for name, all := range map[string]*[]head{
		layout.ImagesFile: &r.images, layout.LayersFile: &r.layers, layout.ContainersFile: &r.containers,
	} {
		content, err := os.ReadFile(filepath.Join(graphRoot, name))
		if errors.Is(err, fs.ErrNotExist) || err == nil && len(content) == 0 {
			continue
		}
		if err != nil {
			return r, err
		}
		var texts []json.RawMessage
		if err = json.Unmarshal(content, &texts); err == nil {
			*all, err = heads(texts)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", filepath.Join(graphRoot, name), err)
		}
	}
	return r, nil
}

// lockTime is how long another program may hold the locks of the store: podman writes a record in milliseconds.
const lockTime = 30 * time.Second

// locked calls change with the library's locks of the layers and the images, in its order: (*store).writeToAllStores in
// go.podman.io/storage.
func locked(ctx context.Context, graphRoot string, change func(layers, images *lockfile.LockFile) error) error {
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	var locks []*lockfile.LockFile
	for _, name := range []string{layout.LayersLock, layout.ImagesLock} {
		path := filepath.Join(graphRoot, name)
		lock, err := lockfile.GetLockFile(path)
		if err != nil {
			return err
		}
		for lock.TryLock() != nil {
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: another program holds it: %w", path, ctx.Err())
			case <-time.After(20 * time.Millisecond):
			}
		}
		defer lock.Unlock()
		locks = append(locks, lock)
	}
	return change(locks[0], locks[1])
}

// write writes a document as the library does: first it notes in the lock file that it has changed, so that others
// read it again, also after a kill.
func write(graphRoot, name string, lock *lockfile.LockFile, all []head) error {
	texts := []json.RawMessage{}
	for _, h := range all {
		texts = append(texts, h.text)
	}
	content, err := json.Marshal(texts)
	if err != nil {
		return err
	}
	if _, err := lock.RecordWrite(); err != nil {
		return err
	}
	tree, err := os.OpenRoot(graphRoot)
	if err != nil {
		return err
	}
	defer tree.Close()
	_, err = atomicfile.WriteIn(tree, name, content, 0o600)
	return err
}
