package spec_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"
	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

const schemaFile = "../../docs/appliance.schema.json"

// entrySchema makes the schema of an element of spec.sources from the table of kinds, and
// those of the types that it refers to.
func entrySchema(r *jsonschema.Reflector) (*jsonschema.Schema, jsonschema.Definitions) {
	const entry = "github.com/pinbox/pinbox/builder/source.Entry"
	fields := jsonschema.NewProperties()
	types := jsonschema.Definitions{}
	add := func(name string, value any, description, example string) {
		field := r.Reflect(value)
		defined := field.Definitions
		if name := strings.TrimPrefix(field.Ref, "#/$defs/"); name != "" && defined[name].Type == "array" {
			field = defined[name] // as in fields that are lists without a name
			delete(defined, name)
		}
		maps.Copy(types, defined)
		field = &jsonschema.Schema{Ref: field.Ref, Type: field.Type, Items: field.Items, Description: description}
		if example != "" && field.Items != nil {
			field.Items.Examples = []any{example}
		} else if example != "" {
			field.Examples = []any{example}
		}
		fields.Set(name, field)
	}
	for _, kind := range source.Kinds() {
		add(kind.Key, kind.New(), kind.Doc, kind.Example)
	}
	// Manifests are a list of paths, or have fields.
	manifests, _ := fields.Get("manifests")
	*manifests = jsonschema.Schema{Description: manifests.Description, OneOf: []*jsonschema.Schema{
		{Type: "array", Items: &jsonschema.Schema{Type: "string", Examples: manifests.Examples}}, {Ref: manifests.Ref},
	}}
	add("set", "", r.CommentMap[entry+".Set"], "site")
	add("pools", []string{}, r.CommentMap[entry+".Pools"], "worker")
	return &jsonschema.Schema{
		Type: "object", Properties: fields, AdditionalProperties: jsonschema.FalseSchema, Description: r.CommentMap[entry],
	}, types
}

// The schema is made from the Go types and their comments, and from the table of sources.
func TestSchemaGolden(t *testing.T) { fixtures.Golden(t, schemaFile, generated(t)) }

// generated returns the schema.
func generated(t *testing.T) []byte {
	t.Helper()
	r := jsonschema.Reflector{FieldNameTag: "yaml", ExpandedStruct: true}
	for _, dir := range []string{".", "../source", "../../storage/layout"} {
		if err := r.AddGoComments("github.com/pinbox/pinbox/builder/spec", dir); err != nil {
			t.Fatal(err)
		}
	}
	for key, text := range r.CommentMap {
		r.CommentMap[key] = strings.ReplaceAll(text, "\n", " ")
	}
	entry, kinds := entrySchema(&jsonschema.Reflector{FieldNameTag: "yaml", CommentMap: r.CommentMap})
	r.Mapper = func(typ reflect.Type) *jsonschema.Schema {
		if typ == reflect.TypeFor[source.Entry]() {
			return &jsonschema.Schema{Ref: "#/$defs/Entry"}
		}
		return formats(typ)
	}
	schema := r.Reflect(&spec.Appliance{})
	maps.Copy(schema.Definitions, kinds)
	schema.Definitions["Entry"] = entry
	for _, field := range []struct{ typ, name, example string }{ // the library reads no "=" in the tag of a list
		{"KernelArguments", "replace", "console=tty0=ttyS0"}, {"KernelArguments", "append", "ip=dhcp"},
		{"InstalledKernelArguments", "append", "console=ttyS0"}, {"ISO", "installDevice", "/dev/sda"},
		{"NodeStore", "partitionLabel", "store"},
	} {
		s, _ := schema.Definitions[field.typ].Properties.Get(field.name)
		if s.Items != nil {
			s = s.Items
		}
		s.Examples = []any{field.example}
	}
	schema.ID = "https://github.com/pinbox/pinbox/docs/appliance.schema.json"
	schema.Title = "pinbox appliance"
	content, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(content, '\n')
}

// formats returns the schema of a format's name: the names in the table of formats.
func formats(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[bytesize.Reserve](), reflect.TypeFor[bytesize.Rate](), reflect.TypeFor[layout.Duration]():
		return &jsonschema.Schema{Type: "string"}
	case reflect.TypeFor[format.Name]():
	default:
		return nil
	}
	var names []any
	for _, name := range format.Names() {
		names = append(names, name)
	}
	return &jsonschema.Schema{Type: "string", Enum: names}
}

// compiled compiles the schema in docs.
func compiled(t *testing.T) *validator.Schema {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "docs", "appliance.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	doc, err := validator.UnmarshalJSON(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	c := validator.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// The schema and pinbox accept and refuse the same files, as far as a schema can express it.
func TestSchemaAgreesWithTheDecoder(t *testing.T) {
	schema := compiled(t)
	const head = "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata:\n  name: a\n"
	const good = head + "spec:\n  sources:\n  - pinnedImageSets: [a.yaml]\n"
	for name, test := range map[string]struct {
		content string
		want    string // in the decoder's error; "" for a good file
	}{
		"minimal":             {good, ""},
		"unknown compression": {good + "  store:\n    compression: lzo\n", "not zstd, gzip or none"},
		"all fields": {
			good + "  platform: linux/arm64\n  store:\n    blockSize: 4096\n  ignition:\n    butane: [b.bu]\n" +
				"    sshAuthorizedKeys: [ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxSYDrPdxVLZ1qMTCYAK0gMMbmLuBnLvxBLDBdLPLvb]\n" +
				"  node:\n    store:\n      path: /srv/store\n    internalRepair: true\n    selinuxContext: \"\"\n" +
				"    keepPrevious: 0\n    autoAttach: true\n    binary: x\n", "",
		},
		"misspelt field":      {good + "  platfrom: linux/amd64\n", ":8:3: field platfrom not found"},
		"misspelt below":      {good + "  node:\n    store:\n      pth: /x\n", ":10:7: field pth not found"},
		"wrong type":          {head + "spec:\n  sources: yes\n", ":6:12: got a text, want a list"},
		"other version":       {strings.Replace(good, "v1alpha1", "v2", 1), "apiVersion is"},
		"other kind":          {strings.Replace(good, "Appliance", "Applience", 1), "kind is"},
		"no name":             {strings.Replace(good, "name: a", "name: \"\"", 1), "metadata.name is missing"},
		"no sources":          {head + "spec:\n  sources: []\n", "spec.sources is empty"},
		"path with a newline": {good + "  node:\n    store:\n      path: \"/a\\nOptions=rw\"\n", "letters, digits"},
		"label with a space":  {good + "  node:\n    store:\n      partitionLabel: my store\n", "partition label"},
		"relative path":       {good + "  node:\n    store:\n      path: srv/store\n", "starts with /"},
		"negative number":     {good + "  node:\n    keepPrevious: -1\n", "keepPrevious is -1; it must be 0 or more"},
		"cluster": {
			good + "  openshift:\n    version: \"4.17\"\n    pools: [worker, infra]\n    api: v1alpha1\n    podman: true\n", "",
		},
		"version with a patch": {good + "  openshift:\n    version: 4.20.1\n", "is not a version such as 4.20"},
		"unknown API":          {good + "  openshift:\n    version: \"4.20\"\n    api: v2\n", "must be v1 or v1alpha1"},
		"duplicate field":      {good + "  sources: []\n", "already defined"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "appliance.yaml")
			if err := os.WriteFile(file, []byte(test.content), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := spec.Read(file)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), file)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			var doc any
			if yaml.Unmarshal([]byte(test.content), &doc) != nil {
				return // not a document for a schema
			}
			if err := schema.Validate(doc); (err == nil) != (test.want == "") {
				t.Errorf("got %v from the schema, want an error: %v", err, test.want != "")
			}
		})
	}
}

// pinbox and the schema accept the appliance files in the documents.
func TestDocumentedAppliances(t *testing.T) {
	schema := compiled(t)
	found := 0
	for _, name := range []string{"docs/start.md", "docs/build.md", "docs/openshift.md"} {
		text, err := os.ReadFile(filepath.Join(fixtures.Root(t), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```yaml\n(apiVersion: pinbox.*?)```").FindAllSubmatch(text, -1) {
			found++
			file := filepath.Join(t.TempDir(), "appliance.yaml")
			if err := os.WriteFile(file, block[1], 0o644); err != nil {
				t.Fatal(err)
			}
			if _, err := spec.Read(file); err != nil {
				t.Errorf("%s: got %v, want no error", name, err)
			}
			var doc any
			if err := yaml.Unmarshal(block[1], &doc); err != nil {
				t.Fatal(err)
			}
			if err := schema.Validate(doc); err != nil {
				t.Errorf("%s: got %v, want no error", name, err)
			}
		}
	}
	if found == 0 {
		t.Error("got no appliance file in the documents, want one")
	}
}
