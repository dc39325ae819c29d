package source

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
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

// Place is the file and line.
func (f Field) Place() string { return fmt.Sprintf("%s:%d", f.File, f.Line) }

// Use is an image as a container or a volume uses it.
type Use struct {
	Image  Field
	Policy Field
	// PolicyName is what Kubernetes calls the field of the policy there.
	PolicyName string
}

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
}

// ReadObjects reads files and folders of Kubernetes objects, each file once; "-" is
// stdin, if there is one.
func ReadObjects(paths []string, stdin io.Reader) (Objects, error) {
	var w walker
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
	return w.Objects, nil
}

// walker collects what it comes by.
type walker struct {
	Objects
	documents int
	file      string
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
		w.walk(root)
	}
	return nil
}

// containerLists are the fields of a PodSpec that hold containers: Kubernetes API,
// core/v1.
var containerLists = []string{"containers", "initContainers", "ephemeralContainers"}

func (w *walker) walk(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		w.set(n)
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			switch {
			case slices.Contains(containerLists, key) && value.Kind == yaml.SequenceNode:
				for _, container := range value.Content {
					w.use(container, "image", "imagePullPolicy")
				}
			case key == "volumes" && value.Kind == yaml.SequenceNode:
				for _, volume := range value.Content {
					w.use(document.Field(volume, "image"), "reference", "pullPolicy")
				}
			}
		}
	}
	for _, child := range n.Content {
		w.walk(child)
	}
}

// unrendered stands for what is no text: most often the braces of a template.
const unrendered = "{{ }}"

func (w *walker) use(n *yaml.Node, image, policy string) {
	use := Use{Image: w.field(document.Field(n, image)), Policy: w.field(document.Field(n, policy)), PolicyName: policy}
	if value := document.Field(n, image); value != nil && value.Kind != yaml.ScalarNode {
		use.Image = Field{unrendered, w.file, value.Line} // YAML takes two braces for mappings
	}
	if use.Image.Text != "" || use.Policy.Text != "" {
		w.Uses = append(w.Uses, use)
	}
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
