package sbom

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// maxPackages is the limit for the packages of all images together: ten times those of an OpenShift release, with
// about 200 images of at most 500 packages each.
const maxPackages = 1_000_000

// ErrTooMany says that the databases of a store exceed maxPackages.
var ErrTooMany = fmt.Errorf("the images list more than %d packages", maxPackages)

// Inventory is what a store contains.
type Inventory struct {
	Platform pinset.Platform
	// Created is the time of the newest image.
	Created time.Time
	// Images, sorted by their pins.
	Images []Image
	// Artifacts are OCI artifacts, sorted by their pins.
	Artifacts []pinset.LockedArtifact
}

// Formats are the functions that write an inventory, by the names of their formats. version is that of pinbox.
func Formats() map[string]func(v Inventory, w io.Writer, version string) error {
	return map[string]func(Inventory, io.Writer, string) error{
		"spdx": Inventory.SPDX, "cyclonedx": Inventory.CycloneDX,
	}
}

// Image is an image of the store.
type Image struct {
	pinset.LockedImage
	// Packages, sorted, each once.
	Packages []Package
	// Unread lists databases that could not be read, and why.
	Unread []string
}

// Package is a package of an operating system.
type Package struct {
	// Type is deb, apk or rpm, as in a package URL.
	Type string
	// Distro and DistroVersion are ID and VERSION_ID of os-release(5); "" if unknown.
	Distro, DistroVersion string
	Name, Version, Arch   string
	// Epoch of the version of an rpm, as a number; "" if it has none.
	Epoch string
	// Source is the name of the source package; "" if it is not another one.
	Source string
}

// Read reads the inventory of the store in a folder, a live ISO or a medium. bases are the same of the bases of a
// delta, which have some of its layers.
func Read(ctx context.Context, name string, bases []string) (v Inventory, err error) {
	r := reader{found: map[string]database{}}
	defer func() { err = errors.Join(err, r.close()) }()
	for _, store := range append([]string{name}, bases...) {
		files, f, err := openFiles(ctx, store, bases)
		if err != nil {
			return v, fmt.Errorf("%s: %w", filepath.Clean(store), err)
		}
		r.stores, r.opened = append(r.stores, files), append(r.opened, f)
	}
	records := layout.Open(r.stores[0])
	lock, err := records.Lock()
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	err = records.Images(func(img layout.Image) error {
		if img.Created.After(v.Created) {
			v.Created = img.Created
		}
		return nil
	})
	if err != nil {
		return v, fmt.Errorf("%s: %w", name, err)
	}
	v.Platform = lock.Platform
	for _, locked := range lock.Images {
		if err := ctx.Err(); err != nil {
			return v, err
		}
		img, err := r.image(locked)
		if err != nil {
			return v, fmt.Errorf("%s: %s: %w", name, locked.Pin, err)
		}
		v.Images = append(v.Images, img)
	}
	slices.SortFunc(v.Images, func(a, b Image) int { return strings.Compare(a.Pin, b.Pin) })
	v.Artifacts = slices.SortedFunc(slices.Values(lock.Artifacts), func(a, b pinset.LockedArtifact) int {
		return strings.Compare(a.Pin, b.Pin)
	})
	return v, nil
}

// reader reads the layers of some stores.
type reader struct {
	opened []io.Closer
	stores []files
	// found are the databases that were read, by their paths in a store: layers occur in many images.
	found map[string]database
	// packages of all images so far.
	packages int
}

// database is a database of packages that was read.
type database struct {
	packages []Package
	problem  error
}

func (r *reader) close() (err error) {
	for _, f := range r.opened {
		err = errors.Join(err, f.Close())
	}
	return err
}

// image reads the packages of an image.
func (r *reader) image(locked pinset.LockedImage) (Image, error) {
	img := Image{LockedImage: locked}
	var t tree
	for _, l := range slices.Backward(base.Chain(locked)) {
		t = append(t, r.layer(l.ID))
	}
	distro, version, err := t.distribution()
	if err == nil {
		err = r.databases(t, &img)
	}
	if errors.Is(err, errElsewhere) {
		img.Unread = append(img.Unread, err.Error())
		return img, nil
	}
	if err != nil {
		return img, err
	}
	for i := range img.Packages {
		img.Packages[i].Distro, img.Packages[i].DistroVersion = distro, version
	}
	slices.SortFunc(img.Packages, Package.compare)
	img.Packages = slices.Compact(img.Packages)
	return img, nil
}

func (p Package) compare(q Package) int {
	return slices.Compare(
		[]string{p.Type, p.Name, p.Version, p.Arch, p.Source, p.Epoch, p.Distro, p.DistroVersion},
		[]string{q.Type, q.Name, q.Version, q.Arch, q.Source, q.Epoch, q.Distro, q.DistroVersion})
}

// databases adds the packages of all databases in the tree to an image.
func (r *reader) databases(t tree, img *Image) error {
	for _, kind := range kinds {
		names := kind.files
		if kind.folder != "" {
			found, err := t.list(kind.folder)
			if err != nil {
				return err
			}
			names = found
		}
		for _, name := range names {
			l, err := t.find(name)
			if err != nil {
				return err
			}
			if l == nil {
				continue
			}
			db, err := r.database(*l, name, kind)
			if err != nil {
				return err
			}
			if r.packages += len(db.packages); r.packages > maxPackages { // many images may share a layer
				return ErrTooMany
			}
			img.Packages = append(img.Packages, db.packages...)
			if db.problem != nil {
				img.Unread = append(img.Unread, fmt.Sprintf("%s: %v", name, db.problem))
			}
			if kind.folder == "" { // the other files are of older versions of the program
				break
			}
		}
	}
	return nil
}

// database reads a database once, however many images have its layer.
func (r *reader) database(l layer, name string, kind kind) (database, error) {
	key := l.root + "/" + name
	if db, ok := r.found[key]; ok {
		return db, nil
	}
	var db database
	content, err := readFile(l.files, key, maxFile)
	if errors.Is(err, errTooLong) {
		db.problem = err
		r.found[key] = db
		return db, nil
	}
	if err != nil {
		return db, err
	}
	db.packages, db.problem = readDatabase(content, kind)
	if errors.Is(db.problem, ErrTooMany) {
		return db, db.problem
	}
	r.found[key] = db
	return db, nil
}

// readDatabase returns the packages before the first error, too.
func readDatabase(content []byte, kind kind) (packages []Package, err error) {
	err = kind.read(content, func(p Package) error {
		if len(packages) == maxPackages {
			return ErrTooMany
		}
		p.Type = kind.name
		if err := p.check(); err != nil {
			return err
		}
		packages = append(packages, p)
		return nil
	})
	return packages, err
}
