package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of a list of images.
var (
	ErrList = fault.New(fault.Input, "not a list of images",
		"list one image per line; # begins a comment")
	ErrEmptyList = fault.New(fault.Input, "lists no image",
		"list at least one image, or remove the file from the inputs")
)

// Named is an image that an input names, by digest or by tag.
type Named struct {
	pinset.Reference
	// Origin is the file and line, or the field, of the name.
	Origin string
	// Volume is true for the image of an image volume.
	Volume bool
	// Short is the name in the input if it was completed, and CompletedBy says by what.
	Short, CompletedBy string
}

// Listing is the list of images that an input names.
type Listing struct {
	Names []Named
	// Possible are names that may be images, and are left out unless another input names them.
	Possible []Possible
	// Warnings describe what else is left out.
	Warnings []string
}

// ImageLists are files of names: one a line, a release of MicroShift as JSON, or Images of
// Hauler.
type ImageLists []string

func (l *ImageLists) add(path string) { *l = append(*l, path) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *ImageLists) UnmarshalYAML(decode func(any) error) error { return decode((*[]string)(l)) }

// Validate implements Source.
func (l *ImageLists) Validate() error { return nil }

// PathFields implements Source.
func (l *ImageLists) PathFields() []*string { return pointers(*l) }

// Read implements Source.
func (l *ImageLists) Read(ctx context.Context, o Options) (Content, error) {
	return readListings(*l, func(path string) (Listing, error) { return ReadList(ctx, path, o) })
}

// readListings reads all files, and reports all errors at once.
func readListings(paths []string, read func(path string) (Listing, error)) (m Content, err error) {
	var names []Named
	var errs []error
	for _, path := range paths {
		l, err := read(path)
		names, errs = append(names, l.Names...), append(errs, err)
		m.Possible, m.Warnings = append(m.Possible, l.Possible...), append(m.Warnings, l.Warnings...)
	}
	m.addNames(names)
	return m, errors.Join(errs...)
}

// ReadList reads a file of images: one a line, with # comments; the release JSON of MicroShift,
// whose images are under "images"; the Images of kubeadm; or an Images manifest of Hauler, whose platform must be that
// of the options. Short names are completed. It reports all errors at once.
func ReadList(ctx context.Context, path string, o Options) (Listing, error) {
	f, err := input.Named(ctx, path)
	if err != nil {
		return Listing{}, err
	}
	defer f.Close()
	content, err := document.ReadAll(f)
	if err != nil {
		return Listing{}, fmt.Errorf("%s: %w: %w", path, ErrList, err)
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // a byte order mark
	if bytes.IndexByte(content, 0) >= 0 {
		return Listing{}, fmt.Errorf("%s: %w: it is not a text", path, ErrList)
	}
	var l Listing
	if structured(path, content) {
		l, err = documents(path, content, o)
	} else {
		l.Names, err = lines(path, content, o)
	}
	if err == nil && len(l.Names) == 0 {
		err = withWarnings(fmt.Errorf("%s: %w", path, ErrEmptyList), l.Warnings)
	}
	return l, err
}

// kubeadmGroup is that of what `kubeadm config images list -o json` prints: cmd/kubeadm/app/apis/output.
const kubeadmGroup = "output.kubeadm.k8s.io/"

// structured reports whether a file is JSON or YAML, not a plain list.
func structured(path string, content []byte) bool {
	return hasObjects(path) || bytes.HasPrefix(bytes.TrimSpace(content), []byte("{"))
}

// maxErrors and maxShort limit the errors for a file that is not a list at all; a word is a short name.
const maxErrors, maxShort = 20, 1000

func lines(path string, content []byte, o Options) (names []Named, err error) {
	var errs []error
	wrong, short := 0, 0
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; scanner.Scan(); n++ {
		if wrong > maxErrors || short > maxShort {
			errs = append(errs, fmt.Errorf("%s: the lines after %d are not checked", path, n-1))
			break
		}
		text, _, _ := strings.Cut(scanner.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		name, err := o.complete(text, fmt.Sprintf("%s:%d", path, n))
		names, errs = append(names, name), append(errs, err)
		switch {
		case errors.Is(err, pinset.ErrShortName):
			short++
		case err != nil:
			wrong++
		}
	}
	if err := scanner.Err(); err != nil {
		errs = append(errs, fmt.Errorf("%s: %w: %w", path, ErrList, err))
	}
	return names, errors.Join(errs...)
}

// parse reads a name, which may have skopeo's transport docker://.
func parse(text, origin string) (Named, error) {
	ref, err := pinset.ParseReference(strings.TrimPrefix(text, "docker://"))
	if err != nil {
		err = fmt.Errorf("%s: %w", origin, err)
	}
	return Named{Reference: ref, Origin: origin}, err
}

// complete reads a name, which may have skopeo's transport docker://, or be short.
func (o Options) complete(text, origin string) (Named, error) {
	text = strings.TrimPrefix(text, "docker://")
	ref, by, err := storage.CompleteName(text, o.DefaultRegistry)
	named := Named{Reference: ref, Origin: origin}
	if by != "" {
		named.Short, named.CompletedBy = text, by
	}
	if err == nil {
		return named, nil
	}
	err = fmt.Errorf("%s: %w", origin, err)
	if errors.Is(err, pinset.ErrShortName) {
		err = fault.With(err, fault.Input, "--default-registry docker.io (spec.defaultRegistry) completes all short names; "+
			"or write the full names")
	}
	return named, err
}

// describeCompleted says in one line which names were completed; "" if none was.
func describeCompleted(all []NamedImages) string {
	var by []string
	short := map[string]pinset.Reference{}
	first := ""
	for _, images := range all {
		for _, n := range images.Names {
			if n.Short == "" {
				continue
			}
			first = cmp.Or(first, n.Short)
			short[n.Short] = n.Reference
			if !slices.Contains(by, n.CompletedBy) {
				by = append(by, n.CompletedBy)
			}
		}
	}
	switch len(short) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("the short name %s is completed by %s: %s", first, by[0], short[first])
	}
	return fmt.Sprintf("%d short names are completed by %s; the first is %s: %s", len(short), strings.Join(by, ", "),
		first,
		short[first])
}

// documents reads objects that list images.
func documents(path string, content []byte, o Options) (l Listing, err error) {
	roots, err := document.Read(bytes.NewReader(content))
	if err != nil {
		return Listing{}, fmt.Errorf("%s: %w: %w", path, ErrList, err)
	}
	var errs []error
	for _, root := range roots {
		var release struct{ Images map[string]yaml.Node }
		kind, group := document.Text(document.Field(root, "kind")), document.Text(document.Field(root, "apiVersion"))
		switch oc := pinset.CheckReleaseInfo(root); {
		case oc != nil:
			return Listing{}, fmt.Errorf("%s:%d: %w", path, root.Line, oc)
		case kind == "Images" && (group == "" || strings.HasPrefix(group, haulerGroup)):
			h := hauler{path: path, o: o}
			h.document(root)
			l.Names, errs = append(l.Names, h.names...), append(errs, h.errs...)
		case kind == "Images" && strings.HasPrefix(group, kubeadmGroup):
			if images := document.Field(root, "images"); images != nil {
				for _, n := range images.Content {
					name, err := o.complete(n.Value, fmt.Sprintf("%s:%d", path, n.Line))
					l.Names, errs = append(l.Names, name), append(errs, err)
				}
			}
		case haulerOthers[kind] != "" && strings.HasPrefix(group, haulerGroup):
			warning := fmt.Sprintf("%s:%d: %s of Hauler are left out: %s", path, root.Line, kind, haulerOthers[kind])
			l.Warnings = append(l.Warnings, warning)
		case root.Decode(&release) == nil && len(release.Images) > 0:
			for _, component := range slices.Sorted(maps.Keys(release.Images)) {
				n := release.Images[component]
				name, err := o.complete(n.Value, fmt.Sprintf("%s:%d", path, n.Line))
				l.Names, errs = append(l.Names, name), append(errs, err)
			}
		default:
			return Listing{}, fmt.Errorf("%s:%d: %w: it is %s, neither a release of MicroShift nor Images of Hauler or kubeadm",
				path, root.Line, ErrList, cmp.Or(kind, "something else"))
		}
	}
	return l, errors.Join(errs...)
}

// Images are names, with a digest or a tag. Short ones are completed.
type Images []string

func (l *Images) add(name string) { *l = append(*l, name) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *Images) UnmarshalYAML(decode func(any) error) error { return decode((*[]string)(l)) }

// Validate implements Source. Read checks the names, all at once.
func (l *Images) Validate() error { return nil }

// PathFields implements Source.
func (l *Images) PathFields() []*string { return nil }

// Read implements Source.
func (l *Images) Read(_ context.Context, o Options) (m Content, err error) {
	var names []Named
	var errs []error
	for i, text := range *l {
		name, err := o.complete(text, fmt.Sprintf("%s.images[%d]", o.field, i))
		names, errs = append(names, name), append(errs, err)
	}
	m.addNames(names)
	return m, errors.Join(errs...)
}
