package source

import (
	"errors"
	"fmt"
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
	objects, err := ReadObjects([]string{path}, nil)
	if err != nil {
		return nil, err
	}
	var names []Named
	var errs []error
	for _, use := range objects.Uses {
		if use.Image.Text == "" {
			continue
		}
		name, err := parse(use.Image.Text, use.Image.Place())
		names, errs = append(names, name), append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: %w", path, ErrNoImages)
	}
	return names, nil
}
