package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"
)

// operators finds the images of catalogs: what bundles name, and the catalog
// itself as oc-mirror has built it of the packages that were asked for.
func (r *workspace) operators() error {
	if r.set == nil {
		return nil
	}
	for _, c := range r.set.Mirror.Operators {
		if err := r.catalog(c); err != nil {
			return fmt.Errorf("catalog %s: %w", c.Catalog, err)
		}
	}
	return nil
}

func (r *workspace) catalog(c Catalog) error {
	ref, err := r.catalogImage(c)
	if err != nil {
		return err
	}
	configs, built := ref.config, ref.config+"filtered-catalogs/"
	if filtered := r.newest(built, "/digest"); filtered != "" {
		content, err := r.files.ReadFile(filtered)
		if err != nil {
			return err
		}
		configs, ref.Stored = path.Dir(filtered)+"/", digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSpace(string(content)))
		if err := ref.Stored.Validate(); err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOCMirror, filtered, err)
		}
	}
	if ref.Repository != "" {
		r.found.Images = append(r.found.Images, ref.Mirrored)
	}
	found := 0
	for _, name := range r.names {
		if !strings.HasPrefix(name, configs+"catalog-config/") || !slices.Contains([]string{".json", ".yaml", ".yml"}, path.Ext(name)) {
			continue
		}
		n, err := r.bundles(name)
		if err != nil {
			return err
		}
		found += n
	}
	if found == 0 {
		return fmt.Errorf("%w: no bundle in %scatalog-config", ErrOCMirror, configs)
	}
	return nil
}

// catalogFolder is a catalog, and where the workspace has it.
type catalogFolder struct {
	Mirrored
	config string
}

// catalogImage has no name if the catalog came from a folder.
func (r *workspace) catalogImage(c Catalog) (f catalogFolder, err error) {
	base := path.Base(strings.TrimSuffix(c.Catalog, "/"))
	if !strings.HasPrefix(c.Catalog, "oci:") {
		named, err := parse(c.Catalog, r.set.origin)
		if err != nil {
			return f, err
		}
		base, f.Reference = path.Base(named.Repository), named.Reference
		if f.Digest != "" {
			f.Tag = ""
		}
		if c.TargetTag != "" {
			f.Tag = c.TargetTag
		}
		if f.Stored = f.Digest; f.Stored == "" {
			f.Stored = r.tags[stored(f.Reference)]
		}
	}
	dir := workingDir + "operator-catalogs/" + base + "/"
	if f.Stored != "" {
		f.config = dir + f.Stored.Encoded() + "/"
		return f, nil
	}
	first := slices.IndexFunc(r.names, func(name string) bool { return strings.HasPrefix(name, dir) })
	if first < 0 {
		return f, fmt.Errorf("%w: it has no %s", ErrOCMirror, dir)
	}
	folder, _, _ := strings.Cut(strings.TrimPrefix(r.names[first], dir), "/")
	f.config = dir + folder + "/"
	return f, nil
}

// newest is the file of that name, in a folder below dir, that was written last.
func (r *workspace) newest(dir, base string) (newest string) {
	for _, name := range r.names {
		if strings.HasPrefix(name, dir) && strings.HasSuffix(name, base) && (newest == "" || r.files.ModTime(name).After(r.files.ModTime(newest))) {
			newest = name
		}
	}
	return newest
}

// bundle is the part of a file-based catalog that names images: olm.bundle of
// github.com/operator-framework/operator-registry, alpha/declcfg.
type bundle struct {
	Schema        string
	Image         string
	RelatedImages []struct{ Image string } `yaml:"relatedImages"`
}

// bundles finds the images of all bundles in a file, and says how many those are.
func (r *workspace) bundles(name string) (count int, err error) {
	content, err := r.files.ReadFile(name)
	if err != nil {
		return 0, err
	}
	var dec interface{ Decode(any) error } = json.NewDecoder(bytes.NewReader(content))
	if path.Ext(name) != ".json" {
		dec = yaml.NewDecoder(bytes.NewReader(content))
	}
	for {
		var b bundle
		err := dec.Decode(&b)
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, fmt.Errorf("%w: %w", ErrOCMirror, Located(name, err))
		}
		if b.Schema != "olm.bundle" {
			continue
		}
		count++
		for _, img := range append(b.RelatedImages, struct{ Image string }{b.Image}) {
			if err := r.related(name, img.Image); err != nil {
				return count, err
			}
		}
	}
}

func (r *workspace) related(origin, text string) error {
	if text == "" || r.set.Blocks(text) {
		return nil
	}
	named, err := parse(text, origin)
	if err != nil {
		return err
	}
	m, err := r.claim(named.Reference, stored(named.Reference))
	if err == nil && !slices.ContainsFunc(r.found.Images, func(o Mirrored) bool { return o == m }) {
		r.found.Images = append(r.found.Images, m)
	}
	return err
}
