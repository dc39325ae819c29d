package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"go.yaml.in/yaml/v3"
)

// What can be wrong with a folder of manifests.
var (
	ErrManifest = errors.New("not a Kubernetes manifest")
	ErrNoImages = errors.New("no container in it names an image")
)

// Manifests finds the images of all pods, and of all templates of pods, in files
// of Kubernetes objects and in folders of them: what `helm template` or `kustomize
// build` gives. Objects of every kind are looked through, for operators' own kinds
// have templates too.
func Manifests(path string) ([]Named, error) {
	files, err := expand(path)
	if err != nil {
		return nil, err
	}
	var w walker
	for _, file := range files {
		if err := w.file(file); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(w.errs...); err != nil {
		return nil, err
	}
	if len(w.names) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoImages)
	}
	return w.names, nil
}

// walker collects images, and everything that is wrong.
type walker struct {
	path  string
	names []Named
	errs  []error
}

func (w *walker) file(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	w.path = path
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrManifest, err)
		}
		w.walk(&doc)
	}
}

// containerLists are the fields of a PodSpec that hold containers: Kubernetes API,
// core/v1.
var containerLists = []string{"containers", "initContainers", "ephemeralContainers"}

func (w *walker) walk(n *yaml.Node) {
	if n.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i].Value, n.Content[i+1]
			switch {
			case slices.Contains(containerLists, key) && value.Kind == yaml.SequenceNode:
				for _, container := range value.Content {
					w.image(field(container, "image"))
				}
			case key == "volumes" && value.Kind == yaml.SequenceNode:
				for _, volume := range value.Content {
					w.image(field(field(volume, "image"), "reference"))
				}
			}
		}
	}
	for _, child := range n.Content {
		w.walk(child)
	}
}

func (w *walker) image(n *yaml.Node) {
	if n == nil || n.Kind != yaml.ScalarNode || n.Value == "" {
		return
	}
	name, err := parse(n.Value, fmt.Sprintf("%s:%d", w.path, n.Line))
	w.names, w.errs = append(w.names, name), append(w.errs, err)
}

// field is the value of a key, nil where there is none.
func field(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
