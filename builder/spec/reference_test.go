package spec_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/pinbox/pinbox/fixtures"
)

// reference writes docs/appliance.md, out of the schema.
type reference struct {
	types jsonschema.Definitions
	text  strings.Builder
	// headings are those of types that are described.
	headings map[string]string
	// wrong are fields without a description or an example.
	wrong []string
}

// docs/appliance.md has all fields of the schema, each with a description and an example.
func TestReferenceGolden(t *testing.T) {
	var schema jsonschema.Schema
	if err := json.Unmarshal(generated(t), &schema); err != nil {
		t.Fatal(err)
	}
	r := reference{types: schema.Definitions, headings: map[string]string{}}
	r.text.WriteString("# The appliance file\n" +
		"All fields of `appliance.yaml`. This page is made from [the schema](appliance.schema.json), with which editors check\n" +
		"and complete the file; `pinbox init` writes one that names the schema, and `pinbox validate` checks it and the files that\n" +
		"it names. [Building an appliance](build.md) explains what the fields do.\n")
	r.describe("", "The file", &schema)
	if r.wrong != nil {
		t.Errorf("got no description or no example of %s, want both", strings.Join(r.wrong, ", "))
	}
	fixtures.Golden(t, "../../docs/appliance.md", []byte(r.text.String()))
}

// describe writes the section of a mapping, and then those of the mappings in it.
func (r *reference) describe(path, heading string, s *jsonschema.Schema) {
	fmt.Fprintf(&r.text, "\n## %s\n%s\n\n| field | value | |\n|---|---|---|\n", heading, s.Description)
	type section struct {
		path, name string
	}
	var below []section
	for field := s.Properties.Oldest(); field != nil; field = field.Next() {
		at := strings.TrimPrefix(path+"."+field.Key, ".")
		value, name := r.value(at, field.Value)
		if name != "" && r.headings[name] == "" {
			r.headings[name] = strings.TrimSuffix(at, "[]")
			below = append(below, section{at, name})
			value, _ = r.value(at, field.Value)
		}
		description := field.Value.Description
		if description == "" && name != "" {
			description = r.types[name].Description
		}
		if slices.Contains(s.Required, field.Key) {
			value += "; required"
		}
		if description == "" {
			r.wrong = append(r.wrong, at)
		}
		fmt.Fprintf(&r.text, "| `%s` | %s | %s |\n", field.Key, value, cell(description))
	}
	for _, b := range below {
		r.describe(b.path, "`"+r.headings[b.name]+"`", r.types[b.name])
	}
}

// value describes the value of a field, with its example; name is that of its type if it has fields itself.
func (r *reference) value(path string, s *jsonschema.Schema) (text, name string) {
	if name = strings.TrimPrefix(s.Ref, "#/$defs/"); name != "" {
		if r.types[name].Type == "array" {
			return r.value(path, r.types[name])
		}
		return "[mapping](#" + anchor(r.headings[name]) + ")", name
	}
	if len(s.OneOf) > 0 {
		list, _ := r.value(path, s.OneOf[0])
		fields, name := r.value(path, s.OneOf[1])
		return list + ", or a " + fields, name
	}
	if s.Type == "array" {
		item, name := r.value(path, s.Items)
		return "list of " + strings.NewReplacer("text,", "texts,", "[mapping]", "[mappings]").Replace(item), name
	}
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", word))
		}
		return strings.Join(words, ", "), ""
	case s.Type == "boolean":
		return "`true` or `false`", ""
	case len(s.Examples) == 0:
		r.wrong = append(r.wrong, path)
		return s.Type, ""
	}
	example := fmt.Sprint(s.Examples[0])
	if s.Type == "integer" {
		return "number, as `" + example + "`", ""
	}
	return "text, as `" + strings.ReplaceAll(example, "|", `\|`) + "`", ""
}

// anchor is the one that GitHub gives to a heading.
func anchor(heading string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "[", "", "]", "").Replace(heading))
}

// cell is text in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}
