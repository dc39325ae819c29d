package spec_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/pinbox/pinbox/builder/source"
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
		"All fields of `appliance.yaml`, each with its values or an example, out of [the schema](appliance.schema.json), with\n" +
		"which editors check and complete the file. [Building an appliance](build.md) has an example.\n")
	r.describe("", "The file", &schema)
	if r.wrong != nil {
		t.Errorf("got no description or no example of %s, want both", strings.Join(r.wrong, ", "))
	}
	fixtures.Golden(t, "../../docs/appliance.md", []byte(r.text.String()))
}

// describe writes the section of a mapping, and then those of the mappings in it.
func (r *reference) describe(path, heading string, s *jsonschema.Schema) {
	text := withoutName("", s.Description)
	if path == "spec.sources" {
		text = "A source, and the set that its images are put in. [Inputs](build.md#inputs) describes each source."
	}
	fmt.Fprintf(&r.text, "\n## %s\n%s\n\n| field | value | |\n|---|---|---|\n", heading, text)
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
		if description == "" {
			description = r.types[name].Description // r.wrong, if it has none either
		}
		if slices.Contains(s.Required, field.Key) {
			value += "; required"
		}
		if description == "" {
			r.wrong = append(r.wrong, at)
		}
		ownHeading := name != "" && r.headings[name] == strings.TrimSuffix(at, "[]") && !strings.Contains(description, ". ")
		if ownHeading || isKind(at) || len(field.Value.Enum) == 1 {
			description = "" // it stands below the heading, in docs/build.md, or in the value
		}
		fmt.Fprintf(&r.text, "| `%s` | %s | %s |\n", field.Key, value, cell(withoutName(field.Key, description)))
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
		return "list of " + strings.Replace(item, "[mapping]", "[mappings]", 1), name
	}
	switch {
	case len(s.Enum) > 0:
		var words []string
		for _, word := range s.Enum {
			words = append(words, fmt.Sprintf("`%v`", word))
		}
		return strings.Join(words, ", "), ""
	case s.Type == "boolean":
		return "`true`, `false`", ""
	case len(s.Examples) == 0:
		r.wrong = append(r.wrong, path)
		return s.Type, ""
	}
	example := fmt.Sprint(s.Examples[0])
	return "`" + strings.ReplaceAll(example, "|", `\|`) + "`", ""
}

// anchor is the one that GitHub gives to a heading.
func anchor(heading string) string {
	return strings.ToLower(strings.NewReplacer(".", "", "[", "", "]", "").Replace(heading))
}

// cell is text in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}

// isKind reports whether a field names inputs, which docs/build.md describes.
func isKind(path string) bool {
	return slices.ContainsFunc(source.Kinds(), func(k source.Kind) bool { return path == "spec.sources."+k.Key })
}

// comment is the beginning of a comment in Go, with the name of what it describes.
var comment = regexp.MustCompile(`^([A-Z][A-Za-z]*) (?:is|are|describes?) ([a-z])`)

// withoutName leaves the name out with which a comment of a field begins; "" for any.
func withoutName(field, description string) string {
	m := comment.FindStringSubmatch(description)
	if m == nil || field != "" && !strings.EqualFold(m[1], field) {
		return description
	}
	return strings.ToUpper(m[2]) + description[len(m[0]):]
}
