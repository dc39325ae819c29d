package source

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Field is a value in a file.
type Field struct {
	// Text is "" where the field is left out.
	Text string
	File string
	Line int
}

// Position is the file and line.
func (f Field) Position() string { return fmt.Sprintf("%s:%d", f.File, f.Line) }

// Use is an image as a container or a volume uses it.
type Use struct {
	Image  Field
	Policy Field
	// PolicyName is what Kubernetes calls the field of the policy there, "" if there is
	// none.
	PolicyName string
	Puller     Puller
	// Expression says that the image is filled in when the object runs.
	Expression bool
}

// Puller is what pulls an image, and so tells when the registry is asked.
type Puller int

const (
	// Kubelet asks as the policy says.
	Kubelet Puller = iota
	// OLM makes a pod of the image, with the policy Always if it is named by tag.
	OLM
	// Importer is CDI's pod, which reads the image from the registry itself.
	Importer
	// ImportCron is CDI's DataImportCron, which asks the registry at each of its times,
	// whatever imports the image then.
	ImportCron
)

// RawSet is a PinnedImageSet as its file has it, right or wrong.
type RawSet struct {
	Name Field
	// List is the place of the list of images.
	List   Field
	Images []Field
}

// Objects is what files of Kubernetes objects say of images.
type Objects struct {
	Uses []Use
	Sets []RawSet
	// Unknown are images that are none of the uses'.
	Unknown []Unknown
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
	if w.documents == 0 { // of a program that failed, for one
		return Objects{}, fmt.Errorf("%s: %w", strings.Join(paths, ", "), ErrNoImages)
	}
	w.dropUsed()
	return w.Objects, nil
}

// walker collects what it comes by.
type walker struct {
	Objects
	documents int
	file      string
	// taken are the values that were read as images.
	taken map[*yaml.Node]bool
}

func (w *walker) read(path string) error {
	f, err := os.Open(path)
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
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		for _, f := range in.fields {
			for _, m := range f.mappings(key, value) {
				w.use(m, f, in)
			}
		}
		below := in
		below.known = in.known || isObject && key == "status" // it asks for nothing
		if !below.known {
			w.unknown(key, value, in.name)
		}
		w.walk(value, below)
	}
}

// unrendered stands for what is no text: most often the braces of a template.
const unrendered = "{{ }}"

func (w *walker) use(n *yaml.Node, f imageField, in object) {
	image, policy := document.Field(n, f.image), document.Field(n, f.policy)
	use := Use{Image: w.field(image), Policy: w.field(policy), PolicyName: f.policy, Puller: f.puller}
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
		use.Image = Field{unrendered, w.file, image.Line} // YAML takes two braces for mappings
	}
	if use.Image.Text != "" || use.Policy.Text != "" {
		w.Uses = append(w.Uses, use)
	}
	if image != nil {
		w.taken[image] = true
	}
}

// imageKeys are endings of keys whose values name images: image, osImageURL, imageName
// and the like in resources of operators, whatever they have for the words between.
var imageKeys = regexp.MustCompile(`(?i)image(_?(name|ref|reference|url|uri|pull_?spec))?s?$`)

// unknown collects full names of images below a key that says so: in its value, in a
// list or in a mapping. Others could be anything. In builds and image streams of
// OpenShift a mapping says so itself: build/v1, ObjectReference of the kind DockerImage.
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
		for _, part := range parts { // else the repository alone would count as an image too
			w.taken[part] = true
		}
		w.Unknown = append(w.Unknown, Unknown{Field{text, w.file, n.Line}, ref, kind})
	}
}

// nameParts are the fields of a name in pieces, as most operators, charts and a
// Kustomization have them; of several for one piece the first counts.
var nameParts = []struct {
	before string
	fields []string
}{
	{"", []string{"registry"}},
	{"/", []string{"repository", "newName", "name"}},
	{":", []string{"newTag", "tag"}},
	{"@", []string{"digest"}},
}

// imageName is a name in one piece, or in several; parts are those.
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

// dropUsed leaves out of the unknown images what is used as well.
func (w *walker) dropUsed() {
	used := map[pinset.Reference]bool{}
	for _, use := range w.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil {
			used[ref] = true
		}
	}
	w.Unknown = slices.DeleteFunc(w.Unknown, func(u Unknown) bool { return used[u.Reference] })
}

// set takes an object that is a PinnedImageSet. What only refers to one, as an
// owner, has a kind too, but neither metadata nor spec.
func (w *walker) set(n *yaml.Node) {
	group, _, _ := strings.Cut(w.field(document.Field(n, "apiVersion")).Text, "/")
	meta, spec := document.Field(n, "metadata"), document.Field(n, "spec")
	if w.field(document.Field(n, "kind")).Text != pinset.Kind || group != pinset.Group || meta == nil && spec == nil {
		return
	}
	here := Field{File: w.file, Line: n.Line}
	set := RawSet{Name: cmp.Or(w.field(document.Field(meta, "name")), here), List: here}
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

// field is a scalar with its place; the zero one where there is none.
func (w *walker) field(n *yaml.Node) Field {
	text := document.Text(n)
	if text == "" {
		return Field{}
	}
	return Field{text, w.file, n.Line}
}
