package spec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/source"
)

// checker finds what the decoder would refuse: keys that are unknown or stand twice, and values of other kinds. It
// takes them out of the tree, so that the rest can be decoded and checked: a key that is misspelt becomes the one
// that was probably meant, and a wrong value null.
type checker struct {
	file *File
	seen map[visit]bool
}

// visit is a node as a type: an alias may lead to it again.
type visit struct {
	n *yaml.Node
	t reflect.Type
}

var (
	entryType     = reflect.TypeFor[source.Entry]()
	manifestsType = reflect.TypeFor[source.Manifests]()
)

// value checks a value that is to be decoded as a type. It returns false if the value is of another kind, which is
// reported.
func (c checker) value(n *yaml.Node, t reflect.Type) bool {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.ShortTag() == "!!null" || c.seen[visit{n, t}] {
		return true
	}
	if t == manifestsType && n.Kind == yaml.SequenceNode {
		t = reflect.TypeFor[[]string]()
	}
	c.seen[visit{n, t}] = true
	switch {
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		c.mapping(n, t)
		return true
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, child := range n.Content {
			if !c.value(child, t.Elem()) {
				n.Content[i] = c.file.null(child)
			}
		}
		return true
	}
	err := n.Decode(reflect.New(t).Interface())
	if err == nil {
		return true
	}
	for _, p := range source.YAMLProblems(err) {
		c.file.wrong = append(c.file.wrong, c.file.problem(n, errors.New(p.Text)))
	}
	return false
}

// mapping checks the keys of a mapping, and its values.
func (c checker) mapping(n *yaml.Node, t reflect.Type) {
	fields, names := fieldsOf(t)
	lines := map[string]int{} // of the keys
	for i := 0; i+1 < len(n.Content); i += 2 {
		lines[n.Content[i].Value] = 0
	}
	kept := n.Content[:0:0]
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		refuse := func(format string, args ...any) {
			c.file.wrong = append(c.file.wrong, c.file.problem(key, fmt.Errorf(format, args...)))
		}
		if key.Tag == "!!merge" {
			kept = append(kept, key, value)
			c.merged(value, t)
			continue
		}
		if first := lines[key.Value]; first > 0 {
			refuse("mapping key %q already defined at line %d", key.Value, first)
			continue
		}
		lines[key.Value] = max(key.Line, 1)
		field, known := fields[key.Value]
		if !known {
			meant := Nearest(key.Value, names)
			if meant == "" {
				refuse("field %s not found", key.Value)
				continue
			}
			refuse("field %s not found; did you mean %s?", key.Value, meant)
			if _, is := lines[meant]; is {
				continue
			}
			lines[meant] = key.Line
			renamed := *key
			renamed.Value, field, key = meant, fields[meant], &renamed
		}
		if !c.value(value, field.t) {
			value = c.file.null(value)
			c.file.taken[key] = true
			c.file.taken[n] = t == entryType // which has no input now
		}
		if value.Kind == yaml.ScalarNode {
			c.file.meant[value] = Nearest(value.Value, field.values)
		}
		kept = append(kept, key, value)
	}
	n.Content = kept
}

// merged checks what a key "<<" merges.
func (c checker) merged(n *yaml.Node, t reflect.Type) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	switch {
	case n.Kind == yaml.MappingNode:
		c.value(n, t)
	case n.Kind == yaml.SequenceNode && !c.seen[visit{n, nil}]:
		c.seen[visit{n, nil}] = true
		for _, child := range n.Content {
			c.merged(child, t)
		}
	}
}

// null returns a value in place of a wrong one, which errors need not name again.
func (f *File) null(n *yaml.Node) *yaml.Node {
	null := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: n.Line, Column: n.Column}
	f.taken[null] = true
	return null
}

// keyOf describes a key of a mapping.
type keyOf struct {
	t      reflect.Type
	values []string // that it may have; nil for any
}

// fieldsOf returns the keys of a struct by their names in YAML, and the names in their order.
func fieldsOf(t reflect.Type) (fields map[string]keyOf, names []string) {
	fields = map[string]keyOf{}
	add := func(name string, key keyOf) {
		fields[name] = key
		names = append(names, name)
	}
	if t == entryType {
		for _, k := range source.Kinds() {
			add(k.Key, keyOf{t: reflect.TypeOf(k.New())})
		}
		add("set", keyOf{t: reflect.TypeFor[string]()})
		add("pools", keyOf{t: reflect.TypeFor[[]string]()})
		return fields, names
	}
	for _, f := range reflect.VisibleFields(t) { // also those of what is embedded
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		key := keyOf{t: f.Type}
		for _, word := range strings.Split(f.Tag.Get("jsonschema"), ",") {
			if value, ok := strings.CutPrefix(word, "enum="); ok {
				key.values = append(key.values, value)
			}
		}
		switch f.Type {
		case reflect.TypeFor[format.Name]():
			key.values = format.Names()
		case reflect.TypeOf(DefaultPlatform):
			key.values = Platforms()
		}
		add(name, key)
	}
	return fields, names
}

// Nearest returns the word of a list that a text is probably meant to be; "" if it is one of them, or like none.
func Nearest(text string, words []string) (found string) {
	text = strings.ToLower(text)
	least := max(1, len(text)/3) + 1
	for _, word := range words {
		if d := distance(text, strings.ToLower(word)); d < least {
			found, least = word, d
		}
	}
	if len(text) < 3 || len(text) > maxText || found == text {
		return ""
	}
	return found
}

// distance is the number of characters to insert, delete, replace or swap with the next one, to make b of a: the
// optimal string alignment of Damerau and Levenshtein.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		for j := range rows[i] {
			switch {
			case i == 0 || j == 0:
				rows[i][j] = i + j
				continue
			case a[i-1] == b[j-1]:
				rows[i][j] = rows[i-1][j-1]
			default:
				rows[i][j] = 1 + min(rows[i-1][j-1], rows[i-1][j], rows[i][j-1])
			}
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				rows[i][j] = min(rows[i][j], 1+rows[i-2][j-2])
			}
		}
	}
	return rows[len(a)][len(b)]
}
