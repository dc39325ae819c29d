package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Entry is an element of spec.sources: a source, and the set that its images are put in.
type Entry struct {
	// Source is the input. In an appliance file its key is the name of its kind.
	Source Source
	// Set is the name of the PinnedImageSet for images that are in no set; the name of the appliance
	// with -images if empty. The set of a release has the version and the pool appended.
	Set string
	// Pools get one set each, with the name of the pool appended. Without pools there is one set
	// for all nodes.
	Pools []string

	// keys are the kinds that the appliance file has in this element. Exactly one is valid.
	keys []string
}

// node decodes a yaml.Node where the unmarshaler has the interface of yaml.v2.
type node struct{ yaml.Node }

// UnmarshalYAML implements the interface of yaml.v3.
func (n *node) UnmarshalYAML(value *yaml.Node) error {
	n.Node = *value
	return nil
}

// field is a field whose type depends on its name. It is decoded later, by the decoder's own
// function: yaml.Node.Decode would accept unknown fields.
type field struct {
	node
	decode func(any) error
}

// UnmarshalYAML implements the interface of yaml.v2, which yaml.v3 also takes.
func (f *field) UnmarshalYAML(decode func(any) error) error {
	f.decode = decode
	return decode(&f.node)
}

// empty reports whether the field has no value. One that is null is not decoded at all.
func (f field) empty() bool {
	return f.decode == nil || f.Kind != yaml.ScalarNode && len(f.Content) == 0
}

// UnmarshalYAML finds the kind of the source by its key in the table, and leaves out keys that it does not know. It
// reports all errors at once.
func (e *Entry) UnmarshalYAML(decode func(any) error) error {
	var fields struct {
		Set   string           `yaml:"set"`
		Pools []string         `yaml:"pools"`
		Kinds map[string]field `yaml:",inline"`
	}
	var wrong yaml.TypeError
	collect := func(err error) error {
		var list *yaml.TypeError
		if errors.As(err, &list) {
			wrong.Errors = append(wrong.Errors, list.Errors...)
			return nil
		}
		return err
	}
	if err := collect(decode(&fields)); err != nil {
		return err
	}
	e.Set, e.Pools = fields.Set, fields.Pools
	for _, k := range Kinds() {
		f := fields.Kinds[k.Key]
		if f.empty() {
			continue
		}
		e.Source, e.keys = k.New(), append(e.keys, k.Key)
		if err := collect(f.decode(e.Source)); err != nil {
			return err
		}
	}
	if len(wrong.Errors) > 0 {
		return &wrong
	}
	return nil
}

// MarshalYAML writes the source under the key of its kind.
func (e Entry) MarshalYAML() (any, error) {
	fields := struct {
		Kind  map[string]Source `yaml:",inline"`
		Set   string            `yaml:"set,omitempty"`
		Pools []string          `yaml:"pools,omitempty"`
	}{map[string]Source{}, e.Set, e.Pools}
	for _, k := range Kinds() {
		if reflect.TypeOf(k.New()) == reflect.TypeOf(e.Source) {
			fields.Kind[k.Key] = e.Source
		}
	}
	return fields, nil
}

// Validate checks an entry, and reports all errors at once. The text of each follows "spec.sources[0] ".
func (e Entry) Validate(appliance string) error {
	var errs []error
	if len(e.keys) > 1 {
		errs = append(errs, fmt.Errorf("has %s; make it a source for each", strings.Join(e.keys, " and ")))
	}
	if e.Source == nil {
		return errors.Join(append(errs, fmt.Errorf("names no input; give it one of %s", strings.Join(keys(), ", ")))...)
	}
	if _, isSets := e.Source.(*PinnedImageSets); isSets {
		if e.Set != "" || len(e.Pools) > 0 {
			errs = append(errs, errors.New("has set or pools, but PinnedImageSets have their own"))
		}
		return errors.Join(errs...)
	}
	if e.Set == "" && !pinset.ValidName(appliance+"-images") {
		errs = append(errs, fmt.Errorf("needs a set: %q is not a valid name for one", appliance+"-images"))
	}
	for _, name := range append([]string{e.Set}, e.Pools...) {
		if name != "" && !pinset.ValidName(name) {
			errs = append(errs, fmt.Errorf("has the set or pool %q, which is not a lower-case RFC 1123 subdomain", name))
		}
	}
	return errors.Join(append(errs, e.Source.Validate())...)
}

// read reads the source, and assigns its images to sets.
func (e Entry) read(ctx context.Context, o Options) (Content, error) {
	m, err := e.Source.Read(ctx, o)
	images := Group{cmp.Or(e.Set, o.Appliance+"-images"), e.Pools}
	for i := range m.Named {
		m.Named[i].Group = images
	}
	for i := range m.Local {
		m.Local[i].Group = images
	}
	for i := range m.Releases {
		m.Releases[i].Group = Group{cmp.Or(e.Set, o.Appliance), e.Pools}
	}
	return m, err
}

// pointers returns pointers to the elements of a list of paths.
func pointers(list []string) (all []*string) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}
