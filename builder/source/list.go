package source

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
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
	// MachineConfigs are as in Objects.
	MachineConfigs map[string][]byte
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
		m.add(Content{Possible: l.Possible, Warnings: l.Warnings, MachineConfigs: l.MachineConfigs})
	}
	m.addNames(names)
	return m, errors.Join(errs...)
}

// ReadList reads a file of images: one a line, with # comments; an array of them, alone or under "images", as in the
// release JSON of MicroShift and in what kubeadm, crictl and podman print; or an Images manifest of Hauler, whose
// platform must be that of the options. Short names are completed. It reports all errors at once.
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

// mappingKey begins a mapping of YAML; a name in a plain list has no blank after a colon.
var mappingKey = regexp.MustCompile(`^["']?\w+["']?:(\s|$)`)

// structured reports whether a file is JSON or YAML, not a plain list: its first line that says something tells.
func structured(path string, content []byte) bool {
	if hasObjects(path) {
		return true
	}
	for line := range bytes.Lines(content) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || line[0] == '#' || string(line) == "---" {
			continue
		}
		return line[0] == '{' || isArray(line) || bytes.HasPrefix(line, []byte("- ")) || mappingKey.Match(line)
	}
	return false
}

// isArray reports whether a line begins an array of JSON, and not a name with the address of a host by IPv6.
func isArray(line []byte) bool {
	return line[0] == '[' && !bytes.Contains(line, []byte("]:")) && !bytes.Contains(line, []byte("]/"))
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
		kind, group := document.Text(document.Field(root, "kind")), document.Text(document.Field(root, "apiVersion"))
		named, unnamed := plainList(root)
		switch oc := pinset.CheckReleaseInfo(root); {
		case oc != nil:
			return Listing{}, fmt.Errorf("%s:%d: %w", path, root.Line, oc)
		case kind == "Images" && (group == "" || strings.HasPrefix(group, haulerGroup)):
			h := hauler{path: path, o: o}
			h.document(root)
			l.Names, errs = append(l.Names, h.names...), append(errs, h.errs...)
		case haulerOthers[kind] != "" && strings.HasPrefix(group, haulerGroup):
			warning := fmt.Sprintf("%s:%d: %s of Hauler are left out: %s", path, root.Line, kind, haulerOthers[kind])
			l.Warnings = append(l.Warnings, warning)
		case len(named) > 0 && (kind == "" || kind == "Images" && strings.HasPrefix(group, kubeadmGroup)):
			for _, n := range named {
				name, err := o.complete(n.Value, fmt.Sprintf("%s:%d", path, n.Line))
				l.Names, errs = append(l.Names, name), append(errs, err)
			}
			if unnamed > 0 {
				warning := fmt.Sprintf("%s:%d: images without a name are left out: %d", path, root.Line, unnamed)
				l.Warnings = append(l.Warnings, warning)
			}
		default:
			err := fmt.Errorf("%s:%d: %w: it is %s, neither a release of MicroShift, nor Images of Hauler or "+
				"kubeadm, nor what `crictl images -o json` prints", path, root.Line, ErrList, cmp.Or(kind, "something else"))
			if flag := FlagFor(kind); flag != "" {
				err = fault.With(err, fault.Input, "give it with "+flag)
			}
			return Listing{}, err
		}
	}
	return l, errors.Join(errs...)
}

// plainList returns the names of a document that is an array of images, or has one under images, or has there a mapping
// of them by component, as a release of MicroShift. An image is a name, or what CRI and podman say of one: all its
// names, since pods may use any (`crictl images -o json`, `podman images --format json`). It returns nil if there is
// anything else. unnamed counts images without a name, whose lists are empty.
func plainList(root *yaml.Node) (all []*yaml.Node, unnamed int) {
	images := root
	if root.Kind == yaml.MappingNode {
		images = document.Field(root, "images")
	}
	if images == nil {
		return nil, 0
	}
	items := images.Content
	if images.Kind == yaml.MappingNode {
		items = nil
		for i := 1; i < len(images.Content); i += 2 {
			items = append(items, images.Content[i])
		}
	}
	for _, item := range items {
		found, names, listed := []*yaml.Node{item}, []*yaml.Node(nil), false
		if item.Kind == yaml.MappingNode {
			found = nil
			for i := 0; i+1 < len(item.Content); i += 2 {
				switch strings.ToLower(item.Content[i].Value) {
				case "repotags", "repodigests":
					found, listed = append(found, item.Content[i+1].Content...), true
				case "names":
					names, listed = item.Content[i+1].Content, true
				}
			}
			if len(found) == 0 {
				found = names
			}
			found = slices.DeleteFunc(found, func(n *yaml.Node) bool { return strings.HasPrefix(n.Value, "<none>") })
		}
		for _, n := range found {
			if document.Text(n) == "" {
				return nil, 0
			}
		}
		switch {
		case len(found) == 0 && !listed:
			return nil, 0
		case len(found) == 0:
			unnamed++
		}
		all = append(all, found...)
	}
	return all, unnamed
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
