package source

import (
	"bytes"
	"cmp"
	"crypto/fips140"
	"crypto/md5"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/pinset"
)

// catalogReader finds the images of operator catalogs.
type catalogReader struct{ *workspace }

// readAll finds the images that the bundles of all catalogs name, and each catalog itself as
// oc-mirror rebuilt it with the requested packages.
func (r catalogReader) readAll() error {
	if r.set == nil {
		return nil
	}
	for i, c := range r.set.Mirror.Operators {
		if err := r.read(c, r.filteredBy(fmt.Sprintf("mirror.operators[%d].platforms", i), c.Platforms)); err != nil {
			return fmt.Errorf("catalog %s: %w", c.Catalog, err)
		}
	}
	return nil
}

func (r catalogReader) read(c Catalog, dropped string) error {
	img, folder, err := r.image(c)
	if err != nil {
		return err
	}
	if len(c.Packages) > 0 || !c.Full {
		filtered, err := r.filtered(c, folder)
		if err != nil {
			return err
		}
		content, err := r.files.ReadFile(filtered + "digest")
		if err != nil {
			return err
		}
		folder, img.Stored = filtered, digest.NewDigestFromEncoded(digest.SHA256, strings.TrimSpace(string(content)))
	}
	if err := img.Stored.Validate(); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrOCMirror, folder, err)
	}
	if img.wanted {
		img.FilteredBy = dropped
		r.add(img.MirroredImage)
	}
	found := 0
	for _, name := range r.names {
		if !strings.HasPrefix(name, folder+"catalog-config/") || !hasObjects(name) {
			continue
		}
		n, err := r.bundles(name, dropped)
		if err != nil {
			return err
		}
		found += n
	}
	if found == 0 {
		return fmt.Errorf("%w: no bundle in %scatalog-config", ErrOCMirror, folder)
	}
	return nil
}

// catalogImage is a catalog. wanted is true if the image itself is wanted, not only its bundles.
type catalogImage struct {
	MirroredImage
	wanted bool
}

// image finds the original image of a catalog, before oc-mirror removed packages, and its folder in
// the workspace.
func (r catalogReader) image(c Catalog) (img catalogImage, folder string, err error) {
	base := path.Base(bareName(c.Catalog))
	var ref pinset.Reference
	tag, named := base+":latest", false
	if strings.HasPrefix(c.Catalog, "oci:") {
		tag = retarget(tag, c.TargetCatalog, c.TargetTag)
		if ref, named = r.nameOf(tag); !named {
			err = r.addUnnamed(tag)
		}
	} else if ref, tag, err = parseMirrored(c.Catalog, r.origin); err == nil {
		tag, named = retarget(tag, c.TargetCatalog, c.TargetTag), true
	}
	if named {
		img.MirroredImage, img.wanted, err = r.request(c.Catalog, ref, tag)
	}
	if err != nil {
		return img, "", err
	}
	if ref.Digest != "" { // oc-mirror writes a tag in addition to the digest
		img.Tag = cmp.Or(ref.Tag, c.TargetTag)
	}
	if img.Stored = pinned(c.Catalog); img.Stored == "" {
		img.Stored = r.tags[tag]
	}
	dir := workingDir + "operator-catalogs/" + base + "/"
	if img.Stored != "" {
		return img, dir + img.Stored.Encoded() + "/", nil
	}
	var folders []string
	for _, name := range r.names {
		if below, ok := strings.CutPrefix(name, dir); ok {
			hex, _, _ := strings.Cut(below, "/")
			folders = append(folders, hex)
		}
	}
	if folders = slices.Compact(folders); len(folders) != 1 {
		return img, "", fmt.Errorf("its packages: %w: %s has %d folders, want one",
			ErrNotMirrored, dir, len(folders))
	}
	img.Stored = digest.NewDigestFromEncoded(digest.SHA256, folders[0])
	return img, dir + folders[0] + "/", nil
}

// bareName is a name without transport, digest and tag; the name of a folder has no tag: ParseRef
// in internal/pkg/image of oc-mirror.
func bareName(text string) string {
	transport, name, ok := strings.Cut(text, "://")
	if !ok {
		transport, name = "docker", text
	}
	name, _, _ = strings.Cut(name, "@")
	if colon := strings.LastIndex(name, ":"); transport == "docker" && colon > strings.LastIndex(name, "/") {
		name = name[:colon]
	}
	return name
}

// pinned is the digest in a name, "" if there is no valid one.
func pinned(name string) digest.Digest {
	_, text, _ := strings.Cut(name, "@")
	d, err := digest.Parse(text)
	if err != nil {
		return ""
	}
	return d
}

// filtered finds the folder of the catalog that oc-mirror rebuilt with these packages. Its name is
// a checksum of the request, with the catalog's digest or, in older versions, its name as it is
// written: digestOfFilter in internal/pkg/operator there.
func (r catalogReader) filtered(c Catalog, folder string) (string, error) {
	hex := path.Base(folder)
	for _, catalog := range []string{bareName(c.Catalog) + "@sha256:" + hex, c.Catalog} {
		c.Catalog = catalog
		text, err := json.Marshal(c)
		if err != nil {
			return "", err
		}
		var name [md5.Size]byte
		fips140.WithoutEnforcement(func() { name = md5.Sum(text) }) // it names a folder, and secures nothing
		dir := fmt.Sprintf("%sfiltered-catalogs/%x/", folder, name)
		if slices.Contains(r.names, dir+"digest") {
			return dir, nil
		}
	}
	return "", fmt.Errorf("these packages: %w: %sfiltered-catalogs has no such selection", ErrNotMirrored, folder)
}

// catalogObject is the part of an object of a file-based catalog that tells whether it is a bundle, and names images
// then. Other fields, some of them of a MB, are skipped.
type catalogObject struct {
	Schema        any `json:"schema"`
	Name          any `json:"name"`
	Image         any `json:"image"`
	RelatedImages any `json:"relatedImages" yaml:"relatedImages"`
}

// bundle is a bundle: olm.bundle of github.com/operator-framework/operator-registry, alpha/declcfg.
type bundle struct {
	Image         string
	RelatedImages []struct{ Image string }
}

// maxCatalogDocument limits a document of a catalog in YAML, in bytes: its parser takes a hundred times as much. That
// of a bundle has its manifests, which have to fit into an object of Kubernetes (1.5 MiB).
const maxCatalogDocument = 2 << 20

// bundles finds the images of all bundles in a file, and counts the bundles.
func (r catalogReader) bundles(name, dropped string) (count int, err error) {
	content, err := r.files.ReadFile(name)
	if err != nil {
		return 0, err
	}
	decode := json.NewDecoder(bytes.NewReader(content)).Decode
	if path.Ext(name) != ".json" {
		decode = yamlDocuments(content)
	}
	for {
		if err := r.interrupted(); err != nil {
			return count, err
		}
		var o catalogObject
		err := decode(&o)
		if errors.Is(err, io.EOF) {
			return count, nil
		}
		if err != nil {
			return count, fmt.Errorf("%w: %w", ErrOCMirror, YAMLError(name, err))
		}
		if o.Schema != "olm.bundle" {
			continue
		}
		count++
		var b bundle
		if text, err := json.Marshal(o); err != nil || json.Unmarshal(text, &b) != nil {
			return count, fmt.Errorf("%w: %s: bundle %v has no images", ErrOCMirror, name, o.Name)
		}
		for _, img := range append(b.RelatedImages, struct{ Image string }{b.Image}) {
			if err := r.related(name, img.Image, dropped); err != nil {
				return count, err
			}
		}
	}
}

// yamlDocuments returns what decodes the documents of a stream, one after the other, and io.EOF at its end.
func yamlDocuments(content []byte) func(into any) error {
	rest := content
	return func(into any) error {
		for len(rest) > 0 {
			one := rest
			if end := bytes.Index(rest, []byte("\n---")); end >= 0 {
				one = rest[:end+1]
			}
			rest = rest[len(one):]
			one = bytes.TrimSpace(bytes.TrimPrefix(one, []byte("---")))
			if len(one) > maxCatalogDocument {
				return fmt.Errorf("a document of %d bytes, more than %d", len(one), maxCatalogDocument)
			}
			if len(one) > 0 {
				return yaml.Unmarshal(one, into)
			}
		}
		return io.EOF
	}
}

// related adds a related image. As oc-mirror does, it leaves out names without tag and digest.
func (r catalogReader) related(origin, text, dropped string) error {
	if text == "" {
		return nil
	}
	ref, tag, err := parseMirrored(text, origin)
	if err != nil || ref.Digest == "" && !strings.HasSuffix(text, ":"+ref.Tag) {
		r.warn("%s: the related image %q is left out: it has neither tag nor digest", origin, text)
		return nil
	}
	m, wanted, err := r.request(text, ref, tag)
	if wanted {
		m.FilteredBy = dropped
		r.add(m)
	}
	return err
}
