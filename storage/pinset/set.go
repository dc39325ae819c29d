package pinset

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

// Group, kind and versions of the sets that the Machine Config Operator serves:
// v1 since OpenShift 4.19, v1alpha1 before.
const (
	Group = "machineconfiguration.openshift.io"
	Kind  = "PinnedImageSet"
)

// RoleLabel binds a set to the nodes of a MachineConfigPool, by the convention of the Machine
// Config Operator. A set without it is for every node.
const RoleLabel = "machineconfiguration.openshift.io/role"

// StoreAnnotation names a store with the images of a set, as `pinbox-node attach` takes it: a URL. Nodes that lack
// images of the set attach the store before they pull.
const StoreAnnotation = "pinbox.dev/store"

// maxStoreName is the limit of that name in bytes.
const maxStoreName = 4096

// CheckStore checks the name in StoreAnnotation.
func CheckStore(name string) error {
	if len(name) > maxStoreName {
		return fmt.Errorf("%s: %d bytes, more than %d", StoreAnnotation, len(name), maxStoreName)
	}
	return checkPrintable(StoreAnnotation, name)
}

// Errors in a file of sets.
var (
	ErrNotSet = fault.New(fault.Input, "not a PinnedImageSet",
		"`oc explain pinnedimageset` shows the form")
	ErrEmptySet = fault.New(fault.Input, "has no images",
		"list at least one image under spec.pinnedImages, or leave the set out")
	ErrDuplicateSet = fault.New(fault.Input, "set name used twice",
		"give one of the sets another metadata.name")
)

// Set is one PinnedImageSet.
type Set struct {
	Name   string
	Labels map[string]string
	// Store is the value of StoreAnnotation; "" without it.
	Store string
	// Version of the API that Render writes; "" is v1.
	Version string
	// Images in the order of the file, each once.
	Images []Image
	// Origin is the file and line that the set came from.
	Origin string
	// Duplicates are the images that the file lists again.
	Duplicates []Image
	// Generated is true if pinbox made the set of images that are in no set of a file.
	Generated bool
	// Generation is metadata.generation, 0 in a file that does not come from a cluster.
	Generation int64
}

// ValidName reports whether a set can have the name: an RFC 1123 subdomain.
func ValidName(name string) bool { return len(name) <= maxNameBytes && objectName.MatchString(name) }

// FileName returns the name of a set's file: the name of the set and ".yaml". If that is longer
// than NAME_MAX (255 bytes), the end of the set's name is replaced by an underscore, which no name
// contains, and 16 digits of the name's SHA-256.
func FileName(set string) string {
	const (
		ending  = ".yaml"
		maxName = 255 // NAME_MAX of limits.h, in bytes
		hashed  = 16
	)
	if len(set)+len(ending) > maxName {
		set = set[:maxName-len(ending)-hashed-1] + "_" + digest.FromString(set).Encoded()[:hashed]
	}
	return set + ending
}

// Revision identifies the content of the set: the generation of the cluster's object, or else the
// digest of the rendered set.
func (s Set) Revision() string {
	if s.Generation > 0 {
		return strconv.FormatInt(s.Generation, 10)
	}
	return digest.FromBytes(s.Render()).String()
}

// DecodeSets reads all PinnedImageSets, v1 and v1alpha1, and lists of them from a stream of YAML
// documents or JSON values. others is the number of objects of other kinds. Errors contain origin
// and line.
func DecodeSets(r io.Reader, origin string) (sets []Set, others int, err error) {
	roots, err := document.Read(r)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w: %w", origin, ErrNotSet, err)
	}
	for _, root := range roots {
		d := decoder{origin: origin}
		if err := CheckReleaseInfo(root); err != nil {
			d.fail(root, "%w", err)
		} else {
			d.object(root)
		}
		if err := errors.Join(d.errs...); err != nil {
			return nil, 0, err
		}
		sets, others = append(sets, d.sets...), others+d.others
	}
	return sets, others, nil
}

// decoder reads one document. It continues after an error, in order to report all of them.
type decoder struct {
	origin string
	sets   []Set
	others int
	errs   []error
}

func (d *decoder) fail(n *yaml.Node, format string, args ...any) {
	d.errs = append(d.errs, fmt.Errorf("%s:%d: %w", d.origin, n.Line, fmt.Errorf(format, args...)))
}

func (d *decoder) object(n *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		d.fail(n, "%w: not an object", ErrNotSet)
		return
	}
	version, kind := document.Text(document.Field(n, "apiVersion")), document.Text(document.Field(n, "kind"))
	group, version, _ := strings.Cut(version, "/")
	switch {
	case kind == "List" || kind == Kind+"List":
		items := document.Field(n, "items")
		for i := 0; items != nil && i < len(items.Content); i++ {
			item := items.Content[i]
			// An API server leaves out the kind of the items: `kubectl get --raw`.
			if kind == Kind+"List" && group == Group && document.Field(item, "kind") == nil && item.Kind == yaml.MappingNode {
				d.set(item)
			} else {
				d.object(item)
			}
		}
	case kind == "":
		d.fail(n, "%w: kind is missing; is the file complete?", ErrNotSet)
	case kind != Kind && strings.EqualFold(kind, Kind):
		d.fail(n, "%w: kind %q must be spelled %s", ErrNotSet, kind, Kind)
	case kind != Kind:
		d.others++
	case group != Group || version != "v1" && version != "v1alpha1":
		d.fail(n, "%w: apiVersion %q is unknown; supported are %s/v1 and /v1alpha1", ErrNotSet,
			document.Text(document.Field(n, "apiVersion")), Group)
	default:
		d.set(n)
	}
}

func (d *decoder) set(n *yaml.Node) {
	d.known(n, "", "apiVersion", "kind", "metadata", "spec", "status")
	meta, spec := document.Field(n, "metadata"), document.Field(n, "spec")
	s := Set{Origin: fmt.Sprintf("%s:%d", d.origin, n.Line), Name: document.Text(document.Field(meta, "name"))}
	if s.Name == "" {
		d.fail(n, "%w: metadata.name is missing", ErrNotSet)
		return
	}
	if !ValidName(s.Name) { // it is used as a file name, too
		d.fail(n, "%w: metadata.name %q is not a lower-case RFC 1123 subdomain", ErrNotSet, s.Name)
		return
	}
	if labels := document.Field(meta, "labels"); labels != nil {
		if err := labels.Decode(&s.Labels); err != nil {
			d.fail(labels, "set %q: %w: metadata.labels: %w", s.Name, ErrNotSet, err)
		}
	}
	s.Store = document.Text(document.Field(document.Field(meta, "annotations"), StoreAnnotation))
	if err := CheckStore(s.Store); err != nil {
		d.fail(meta, "set %q: %w: %w", s.Name, ErrNotSet, err)
	}
	if generation := document.Field(meta, "generation"); generation != nil {
		if err := generation.Decode(&s.Generation); err != nil {
			d.fail(generation, "set %q: %w: metadata.generation: %w", s.Name, ErrNotSet, err)
		}
	}
	if spec == nil || spec.Kind != yaml.MappingNode {
		d.fail(n, "set %q: %w: spec is missing", s.Name, ErrNotSet)
		return
	}
	d.known(spec, "spec.", "pinnedImages")
	d.images(&s, spec)
	d.sets = append(d.sets, s)
}

func (d *decoder) images(s *Set, spec *yaml.Node) {
	list := document.Field(spec, "pinnedImages")
	if list == nil || len(list.Content) == 0 {
		d.fail(spec, "set %q: %w", s.Name, ErrEmptySet)
		return
	}
	if list.Kind != yaml.SequenceNode {
		d.fail(list, "set %q: %w: spec.pinnedImages is not a list", s.Name, ErrNotSet)
		return
	}
	seen := map[Image]bool{}
	for _, item := range list.Content {
		if item.Kind != yaml.MappingNode || document.Field(item, "name") == nil {
			d.fail(item, "set %q: %w: an entry of spec.pinnedImages has the form \"name: repository@sha256:…\"", s.Name,
				ErrNotSet)
			continue
		}
		d.known(item, "spec.pinnedImages[].", "name")
		img, err := ParseImage(document.Text(document.Field(item, "name")))
		if err != nil {
			d.fail(item, "set %q: %w", s.Name, err)
			continue
		}
		if seen[img] {
			s.Duplicates = append(s.Duplicates, img)
			continue
		}
		seen[img] = true
		s.Images = append(s.Images, img)
	}
}

func (d *decoder) known(n *yaml.Node, prefix string, names ...string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !slices.Contains(names, n.Content[i].Value) {
			d.fail(n.Content[i], "%w: unknown field %s%s; known are %s", ErrNotSet, prefix, n.Content[i].Value,
				strings.Join(names, ", "))
		}
	}
}

// Render returns the set as an object in YAML. The form is canonical: equal sets give equal
// bytes.
func (s Set) Render() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s/%s\nkind: %s\nmetadata:\n", Group, cmp.Or(s.Version, "v1"), Kind)
	if len(s.Labels) > 0 {
		b.WriteString("  labels:\n")
		for _, key := range slices.Sorted(maps.Keys(s.Labels)) {
			fmt.Fprintf(&b, "    %s: %s\n", scalar(key), scalar(s.Labels[key]))
		}
	}
	fmt.Fprintf(&b, "  name: %s\nspec:\n  pinnedImages:\n", scalar(s.Name))
	for _, img := range s.Images {
		fmt.Fprintf(&b, "  - name: %s\n", scalar(img.String()))
	}
	return []byte(b.String())
}

// scalar quotes a string for YAML, if that is necessary.
func scalar(s string) string {
	out, err := yaml.Marshal(s)
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// FileError is the error for a file of sets that cannot be read.
type FileError struct {
	File string
	// Revision is the digest of the file's content.
	Revision string
	Err      error
}

// Error returns the text of Err, which contains the file and the line.
func (e *FileError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *FileError) Unwrap() error { return e.Err }
