package source

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
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
	// From is where the object is in a cluster; zero if it is of no cluster.
	From Live
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
	// Possible are names that may be images, and are not among the uses.
	Possible []Possible
	// Unread are texts that were not read.
	Unread []Unread
	// MachineConfigs are streams of them by the positions of the first ones, also of those in texts.
	MachineConfigs map[string][]byte
	// Kubelets are policies of kubelets, and AlwaysPull where an API server gets AlwaysPullImages.
	Kubelets   []KubeletPolicy
	AlwaysPull []Field
}

// ReadObjects reads files and folders of Kubernetes objects, each file once; "-" is
// stdin, if there is one.
func ReadObjects(ctx context.Context, paths []string, stdin io.Reader) (Objects, error) {
	w := walker{
		taken: map[*yaml.Node]bool{}, listed: map[place]bool{}, Objects: Objects{MachineConfigs: map[string][]byte{}},
	}
	seen := map[string]bool{}
	for _, path := range paths {
		if path == "-" && stdin != nil {
			all, err := input.Stream(ctx, stdin)
			if err == nil {
				err = w.stream(all, "stdin")
			}
			if err != nil {
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
			if err := w.read(ctx, file, path); err != nil {
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
	// path leads from the document to the value that is looked at, one element for each key or index.
	path []string
	// taken are the values that were read as images, or as parts of their names.
	taken map[*yaml.Node]bool
	// listed are the possible images of each object.
	listed map[place]bool
	// depth counts the texts around the value.
	depth int
	// unpacked is the size in bytes of the texts of a file that were parsed, and inTexts counts their nodes, with what
	// their aliases refer to.
	unpacked, inTexts int
	err               error
}

func (w *walker) read(ctx context.Context, file, path string) error {
	f, err := open(ctx, file, path)
	if err != nil {
		return err
	}
	defer f.Close()
	return w.stream(f, file)
}

func (w *walker) stream(r io.Reader, name string) error {
	w.file, w.unpacked, w.inTexts = name, 0, 0
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
		if !ok { // such as the values of a chart
			o = object{imageKind: imageKind{fields: podFields(), unsure: true}, name: "an object without a kind"}
		}
		w.walk(root, "", o)
	}
	return w.err
}

// walk looks at each text below a node. key is the key, the variable or the flag whose value the node is.
func (w *walker) walk(n *yaml.Node, key string, in object) {
	if in.nested {
		if w.inTexts++; w.inTexts > maxInTexts {
			w.tooLarge(n)
		}
	}
	if w.err != nil {
		return
	}
	switch n.Kind {
	case yaml.ScalarNode:
		w.plugin(n)
		w.text(n, key, in)
		return
	case yaml.SequenceNode:
		of := key
		if values := namedValues(n); len(values.Content) > 2 {
			w.parts(values, key, in)
			w.dotted(values, in)
		}
		for i, child := range n.Content {
			w.path = append(w.path, "["+strconv.Itoa(i)+"]")
			w.walk(child, of, in)
			w.path = w.path[:len(w.path)-1]
			if of = key; strings.HasPrefix(child.Value, "-") && !strings.Contains(child.Value, "=") {
				of = child.Value // the next argument is the value of this flag
			}
		}
		return
	}
	o, isObject := objectOf(n)
	if isObject {
		o.nested, o.root = in.nested, len(w.path)
		in = o
		w.machineConfig(n)
	} else if from := liveOf(n, strings.TrimSuffix(in.kind(), "List")); from != (Live{}) {
		in.from, isObject = from, true // an item of a list, of which must-gather leaves out the kind
	}
	w.set(n)
	w.kubelet(n)
	for i := 0; i+1 < len(n.Content); i += 2 {
		for _, f := range in.fields {
			for _, m := range f.mappings(n.Content[i].Value, n.Content[i+1]) {
				w.use(m, f, in)
			}
		}
	}
	w.parts(n, key, in)
	w.dotted(n, in)
	below := in
	below.shared = sharedBy(n, in.shared)
	kind := document.Text(document.Field(n, "kind"))
	variable := document.Text(document.Field(n, "name"))
	if variable == "" { // a patch
		variable = path.Base(document.Text(document.Field(n, "path")))
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		inside, of := below, key
		switch {
		case isObject && key == "status": // it requests no image
			inside.none = true
		case key == "metadata" || key == "annotations":
			inside.unsure = true
		case variable != "" && (key == "value" || key == "default"):
			of = variable
		case key == "name" && kind == "DockerImage": // ObjectReference of build/v1 and image/v1
			of, inside.unsure = "image", true
		case key == "name" && (kind == "ImageStreamTag" || kind == "ImageStreamImage"):
			inside.none = true
		}
		w.path = append(w.path, key)
		w.text(n.Content[i], "", inside)
		w.walk(value, of, inside)
		w.path = w.path[:len(w.path)-1]
	}
}

// machineConfig keeps an object if it is a MachineConfig.
func (w *walker) machineConfig(n *yaml.Node) {
	if document.Text(document.Field(n, "kind")) != "MachineConfig" {
		return
	}
	text, err := yaml.Marshal(n)
	at := fmt.Sprintf("%s:%d", w.file, n.Line)
	if err != nil {
		w.err = fmt.Errorf("%s: %w: %w", at, ErrManifest, err)
		return
	}
	w.MachineConfigs[at] = slices.Concat(w.MachineConfigs[at], []byte("---\n"), text)
}

// unrendered stands for a value that is not a scalar, most often the braces of a template.
const unrendered = "{{ }}"

func (w *walker) use(n *yaml.Node, f imageField, in object) {
	image, policy := document.Field(n, f.image), document.Field(n, f.policy)
	use := Use{Image: w.field(image), Policy: w.field(policy), PolicyName: f.policy, Puller: f.puller, Volume: f.volume,
		From: in.from}
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
	if _, _, err := pinset.Expand(use.Image.Text); in.none && err != nil { // a pattern of a policy
		return
	}
	if in.nested { // it may be a template, or an example in a document
		if _, err := pinset.ParseReference(use.Image.Text); err != nil {
			return
		}
	}
	if use.Image.Text != "" || use.Policy.Text != "" {
		w.Uses = append(w.Uses, use)
	}
	if image != nil {
		w.taken[image] = true
	}
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

// KubeletPolicy is what a configuration of the kubelet says about images that are on the node: a
// KubeletConfiguration, or any object that contains one, such as OpenShift's KubeletConfig.
type KubeletPolicy struct {
	// Policy is imagePullCredentialsVerificationPolicy.
	Policy Field
	// Allowed is preloadedImagesVerificationAllowlist.
	Allowed []Field
}

// kubelet adds the policy in a mapping, if it has one.
func (w *walker) kubelet(n *yaml.Node) {
	k := KubeletPolicy{Policy: w.field(document.Field(n, "imagePullCredentialsVerificationPolicy"))}
	if list := document.Field(n, "preloadedImagesVerificationAllowlist"); list != nil {
		for _, item := range list.Content {
			k.Allowed = append(k.Allowed, w.field(item))
		}
	}
	if k.Policy.Text != "" || len(k.Allowed) > 0 {
		w.Kubelets = append(w.Kubelets, k)
	}
}

// alwaysPull matches the admission plugin in a list of plugins: a flag of kube-apiserver, or the value of one
// in kubeadm's or OpenShift's configuration.
var alwaysPull = regexp.MustCompile(`^(--enable-admission-plugins=)?([A-Za-z]+,)*AlwaysPullImages(,[A-Za-z]+)*$`)

// plugin adds a text that switches on the admission plugin AlwaysPullImages.
func (w *walker) plugin(n *yaml.Node) {
	if alwaysPull.MatchString(n.Value) {
		w.AlwaysPull = append(w.AlwaysPull, w.field(n))
	}
}
