package cluster

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pinbox/pinbox/storage/pinset"
)

// object returns the set of an object of the API. v1alpha1 has the fields of v1.
func object(u *unstructured.Unstructured) (Set, error) {
	var o mcfgv1.PinnedImageSet
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &o); err != nil {
		return Set{}, fmt.Errorf("set %q: %w", u.GetName(), err)
	}
	s := Set{Name: o.Name, UID: string(o.UID), Generation: o.Generation, ResourceVersion: o.ResourceVersion}
	s.Created = o.CreationTimestamp.UTC()
	if role, ok := o.Labels[pinset.RoleLabel]; ok {
		s.Role = &role
	}
	s.Store = o.Annotations[pinset.StoreAnnotation]
	if err := pinset.CheckStore(s.Store); err != nil {
		// No rule of the API constrains an annotation: the images are pulled.
		s.Store = "not valid: " + printable(err.Error())
	}
	s.Images = []string{}
	for _, img := range o.Spec.PinnedImages {
		s.Images = append(s.Images, string(img.Name))
	}
	if err := s.check(); err != nil {
		return Set{}, fmt.Errorf("set %q: %w", s.Name, err)
	}
	return s, nil
}

// decode returns the set with its images.
func (s Set) decode() (pinset.Set, error) {
	set := pinset.Set{Name: s.Name, Generation: s.Generation, Origin: "the cluster", Store: s.Store}
	if s.Role != nil {
		set.Labels = map[string]string{pinset.RoleLabel: *s.Role}
	}
	for _, name := range s.Images {
		img, err := pinset.ParseImage(name)
		if err != nil {
			return pinset.Set{}, fmt.Errorf("set %q of the cluster: %w", s.Name, err)
		}
		if !slices.Contains(set.Images, img) {
			set.Images = append(set.Images, img)
		}
	}
	return set, nil
}

// printable is the beginning of a text of others, without what would change a terminal.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}
