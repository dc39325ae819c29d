package source

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Field is a value in a file.
type Field struct {
	// Text is "" if the field is missing.
	Text string
	File string
	Line int
}

// Position returns FILE:LINE.
func (f Field) Position() string { return fmt.Sprintf("%s:%d", f.File, f.Line) }

// Use is an image of a container or of a volume.
type Use struct {
	Image  Field
	Policy Field
	// PolicyName is the name of the policy's field, "" if the object has none.
	PolicyName string
	Puller     Puller
	// Volume is true for the image of an image volume, which the kubelet mounts and does not run.
	Volume bool
	// Expression is true if the image is substituted when the object runs.
	Expression bool
}

// Puller is the component that pulls an image; it decides when the registry is contacted.
type Puller int

const (
	// Kubelet pulls as the policy says.
	Kubelet Puller = iota
	// OLM runs the image in a pod, with the policy Always if it is named by tag.
	OLM
	// Importer is CDI's pod, which reads the image from the registry itself.
	Importer
	// ImportCron is CDI's DataImportCron, which contacts the registry on its schedule, whatever
	// imports the image then.
	ImportCron
)

// RawSet is a PinnedImageSet as it is in its file, valid or not.
type RawSet struct {
	Name Field
	// Role is the label of the pool; zero if there is none.
	Role Field
	// List is the position of the list of images.
	List   Field
	Images []Field
}

// Objects are the images and sets in files of Kubernetes objects.
type Objects struct {
	Uses []Use
	Sets []RawSet
	// Unknown are images in objects of unknown kinds that are not among the uses.
	Unknown []Unknown
	// Kubelets are policies of kubelets, and AlwaysPull where an API server gets AlwaysPullImages.
	Kubelets   []KubeletPolicy
	AlwaysPull []Field
}

// ReadObjects reads files and folders of Kubernetes objects, each file once; "-" is
// stdin, if there is one.
func ReadObjects(paths []string, stdin io.Reader) (Objects, error) {
	w := walker{taken: map[*yaml.Node]bool{}}
	seen := map[string]bool{}
	for _, path := range paths {
		if path == "-" && stdin != nil {
			if err := w.stream(stdin, "stdin"); err != nil {
				return Objects{}, err
			}
			continue
		}
		files, err := expand(path)
		if err != nil {
			return Objects{}, err
		}
		for _, file := range files {
			if clean := filepath.Clean(file); seen[clean] {
				continue
			} else {
				seen[clean] = true
			}
			if err := w.read(file); err != nil {
				return Objects{}, err
			}
		}
	}
	if w.documents == 0 { // such as the output of a program that failed
		return Objects{}, fmt.Errorf("%s: %w", strings.Join(paths, ", "), ErrNoImages)
	}
	w.dropUsed()
	return w.Objects, nil
}

// walker collects the images and sets of objects.
type walker struct {
	Objects
	documents int
	file      string
	// taken are the values that were read as images.
	taken map[*yaml.Node]bool
}

func (w *walker) read(path string) error {
	f, err := input.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.stream(f, path)
}

func (w *walker) stream(r io.Reader, name string) error {
	w.file = name
	roots, err := document.Read(r)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrManifest, err)
	}
	w.documents += len(roots)
	for _, root := range roots {
		if err := pinset.CheckReleaseInfo(root); err != nil {
			return fmt.Errorf("%s:%d: %w", name, root.Line, err)
		}
		o, ok := objectOf(root)
		if !ok {
			o = object{imageKind: imageKind{fields: podFields()}, name: "an object without a kind"}
		}
		w.walk(root, o)
	}
	return nil
}

func (w *walker) walk(n *yaml.Node, in object) {
	if n.Kind != yaml.MappingNode {
		w.plugin(n)
		for _, child := range n.Content {
			w.walk(child, in)
		}
		return
	}
	o, isObject := objectOf(n)
	if isObject {
		in = o
	}
	w.set(n)
	w.kubelet(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		for _, f := range in.fields {
			for _, m := range f.mappings(key, value) {
				w.use(m, f, in)
			}
		}
		below := in
		below.known = in.known || isObject && key == "status" // a status requests no image
		if !below.known {
			w.unknown(key, value, in.name)
		}
		w.walk(value, below)
	}
}

// unrendered stands for a value that is not a scalar, most often the braces of a template.
const unrendered = "{{ }}"

func (w *walker) use(n *yaml.Node, f imageField, in object) {
	image, policy := document.Field(n, f.image), document.Field(n, f.policy)
	use := Use{Image: w.field(image), Policy: w.field(policy), PolicyName: f.policy, Puller: f.puller, Volume: f.volume}
	text, ok := strings.CutPrefix(use.Image.Text, f.transport)
	if !ok && strings.HasPrefix(text, "oci-archive:") { // a file
		return
	}
	use.Image.Text = text
	if use.Puller == Importer && document.Text(document.Field(n, "pullMethod")) == "node" {
		use.Puller = Kubelet
	}
	use.Expression = in.expression != "" && strings.Contains(use.Image.Text, in.expression)
	if image != nil && image.Kind != yaml.ScalarNode {
		use.Image = Field{unrendered, w.file, image.Line} // YAML parses two braces as mappings
	}
	if use.Image.Text != "" || use.Policy.Text != "" {
		w.Uses = append(w.Uses, use)
	}
	if image != nil {
		w.taken[image] = true
	}
}

// imageKeys matches keys whose values name images, such as image, osImageURL and imageName in
// custom resources.
var imageKeys = regexp.MustCompile(`(?i)image(_?(name|ref|reference|url|uri|pull_?spec))?s?$`)

// unknown collects full names of images below a key of imageKeys: in its value, in a list or in a
// mapping. A text below another key could be anything. In builds and image streams of OpenShift the
// mapping names the kind: build/v1, ObjectReference of the kind DockerImage.
func (w *walker) unknown(key string, value *yaml.Node, kind string) {
	if !imageKeys.MatchString(key) && document.Text(document.Field(value, "kind")) != "DockerImage" {
		return
	}
	for _, n := range append([]*yaml.Node{value}, value.Content...) {
		name, parts := imageName(n)
		text := strings.TrimPrefix(name, "docker://")
		ref, short, err := pinset.Expand(text)
		if err != nil || short || w.taken[n] {
			continue
		}
		w.taken[n] = true
		for _, part := range parts { // else the repository would be an image of its own
			w.taken[part] = true
		}
		w.Unknown = append(w.Unknown, Unknown{Field{text, w.file, n.Line}, ref, kind})
	}
}

// nameParts are the fields of a name in parts, as in most custom resources, charts and
// Kustomizations. Of several fields for a part the first is used.
var nameParts = []struct {
	before string
	fields []string
}{
	{"", []string{"registry"}},
	{"/", []string{"repository", "newName", "name"}},
	{":", []string{"newTag", "tag"}},
	{"@", []string{"digest"}},
}

// imageName returns the name in a scalar or in parts, and the nodes of the parts.
func imageName(n *yaml.Node) (name string, parts []*yaml.Node) {
	name = document.Text(n)
	for _, part := range nameParts {
		for _, field := range part.fields {
			value := document.Field(n, field)
			if text := document.Text(value); text != "" {
				name, parts = name+part.before+text, append(parts, value)
				break
			}
		}
	}
	return strings.TrimPrefix(name, "/"), parts
}

// dropUsed removes unknown images that are also used.
func (w *walker) dropUsed() {
	used := map[pinset.Reference]bool{}
	for _, use := range w.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil {
			used[ref] = true
		}
	}
	w.Unknown = slices.DeleteFunc(w.Unknown, func(u Unknown) bool { return used[u.Reference] })
}

// set adds an object if it is a PinnedImageSet. References to one, such as owners, also have a
// kind, but neither metadata nor spec.
func (w *walker) set(n *yaml.Node) {
	group, _, _ := strings.Cut(w.field(document.Field(n, "apiVersion")).Text, "/")
	meta, spec := document.Field(n, "metadata"), document.Field(n, "spec")
	if w.field(document.Field(n, "kind")).Text != pinset.Kind || group != pinset.Group || meta == nil && spec == nil {
		return
	}
	here := Field{File: w.file, Line: n.Line}
	set := RawSet{Name: cmp.Or(w.field(document.Field(meta, "name")), here), List: here}
	set.Role = w.field(document.Field(document.Field(meta, "labels"), pinset.RoleLabel))
	key, list := document.Entry(spec, "pinnedImages")
	if key != nil {
		set.List.Line = key.Line
	}
	if list != nil && list.Kind == yaml.SequenceNode {
		for _, item := range list.Content {
			set.Images = append(set.Images, cmp.Or(w.field(document.Field(item, "name")), Field{File: w.file, Line: item.Line}))
		}
	}
	w.Sets = append(w.Sets, set)
}

// field is a scalar with its position; zero if there is none.
func (w *walker) field(n *yaml.Node) Field {
	text := document.Text(n)
	if text == "" {
		return Field{}
	}
	return Field{text, w.file, n.Line}
}
