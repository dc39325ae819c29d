package source

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Entry is an element of spec.sources: a source, and the set that its images become.
type Entry struct {
	// Source has the name of its kind in an appliance file.
	Source Source
	// Set is the name of the PinnedImageSet that is made of images that have none;
	// that of the appliance with -images if left out. That of a release gets its
	// version and the pool behind it.
	Set string
	// Pools get a set each, with their names behind it; without any it is one for
	// every node.
	Pools []string

	// given are the kinds that the appliance file has here. One is valid.
	given []string
}

// node is what an unmarshaler of yaml.v2 has to decode into for a yaml.Node.
type node struct{ yaml.Node }

// UnmarshalYAML implements the interface of yaml.v3.
func (n *node) UnmarshalYAML(value *yaml.Node) error {
	n.Node = *value
	return nil
}

// field is a field of which the type depends on its name. It is decoded later, by a function
// that refuses unknown fields as the decoder does, which yaml.Node.Decode would not.
type field struct {
	node
	decode func(any) error
}

// UnmarshalYAML implements the interface of yaml.v2, which yaml.v3 also takes.
func (f *field) UnmarshalYAML(decode func(any) error) error {
	f.decode = decode
	return decode(&f.node)
}

// empty says whether it stands for nothing. One that is null is not decoded at all.
func (f field) empty() bool {
	return f.decode == nil || f.Kind != yaml.ScalarNode && len(f.Content) == 0
}

// UnmarshalYAML finds the kind of the source by its name in the table. All that is wrong is
// reported at once.
func (e *Entry) UnmarshalYAML(decode func(any) error) error {
	var root node
	if err := decode(&root); err != nil {
		return err
	}
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
		delete(fields.Kinds, k.Key)
		if f.empty() {
			continue
		}
		e.Source, e.given = k.New(), append(e.given, k.Key)
		if err := collect(f.decode(e.Source)); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(fields.Kinds)) {
		text := fmt.Sprintf("line %d: field %s not found in type source.Entry", lineOf(root, name), name)
		wrong.Errors = append(wrong.Errors, text)
	}
	if len(wrong.Errors) > 0 {
		return &wrong
	}
	return nil
}

// lineOf finds the line of a key; for one that came by "<<", that of the mapping.
func lineOf(mapping node, key string) int {
	for i := 0; i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i].Line
		}
	}
	return mapping.Line
}

// Validate finds what is wrong with an entry. The error continues the sentence
// "spec.sources[0]".
func (e Entry) Validate(appliance string) error {
	_, isSets := e.Source.(*PinnedImageSets)
	switch {
	case len(e.given) > 1:
		return fmt.Errorf("has %s; make it a source for each", strings.Join(e.given, " and "))
	case e.Source == nil:
		return fmt.Errorf("names no input; give it one of %s", strings.Join(keys(), ", "))
	case isSets && (e.Set != "" || len(e.Pools) > 0):
		return errors.New("has set or pools, which PinnedImageSets say themselves")
	case isSets:
		return nil
	case e.Set == "" && !pinset.ValidName(appliance+"-images"):
		return fmt.Errorf("needs a set: %q is no name for one", appliance+"-images")
	}
	for _, name := range append([]string{e.Set}, e.Pools...) {
		if name != "" && !pinset.ValidName(name) {
			return fmt.Errorf("has the set or pool %q, which is no lower-case RFC 1123 subdomain", name)
		}
	}
	return e.Source.Validate()
}

// read reads the source, and says which sets its images become.
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

// pointers to the elements of a list of paths.
func pointers(list []string) (all []*string) {
	for i := range list {
		all = append(all, &list[i])
	}
	return all
}
