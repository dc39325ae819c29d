package spec

import (
	"bytes"
	_ "embed"
	"path/filepath"
	"strings"
	"text/template"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

// schemaURL is where editors find the schema.
const schemaURL = "https://raw.githubusercontent.com/pinbox/pinbox/main/docs/appliance.schema.json"

//go:embed appliance.yaml.tmpl
var commented string

// Start has what a new appliance file begins with.
type Start struct {
	Name     string
	Platform pinset.Platform
	Sources  []source.Entry
	// Base is the live ISO; "" for none.
	Base string
}

// Render returns the appliance file, with comments, for a path. Paths in it are relative to its folder.
func (s Start) Render(path string) ([]byte, error) {
	dir := filepath.Dir(path)
	paths := []*string{&s.Base}
	for _, entry := range s.Sources {
		paths = append(paths, entry.Source.PathFields()...)
	}
	for _, p := range paths {
		if relative, err := filepath.Rel(dir, *p); err == nil && *p != "" && !filepath.IsAbs(*p) {
			*p = relative
		}
	}
	var failed error
	encode := func(value any) string {
		var b bytes.Buffer
		enc := yaml.NewEncoder(&b)
		enc.SetIndent(2)
		if err := enc.Encode(value); err != nil {
			failed = err
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	sources := "  " + strings.ReplaceAll(encode(s.Sources), "\n", "\n  ") + "\n"
	base := ""
	if s.Base != "" {
		base = encode(s.Base)
	}
	var b bytes.Buffer
	err := template.Must(template.New("").Parse(commented)).Execute(&b, map[string]any{
		"Schema": schemaURL, "File": filepath.Base(path), "APIVersion": apiVersion, "Kind": kind,
		"Name": encode(s.Name), "Platform": string(s.Platform), "Kinds": source.Kinds(), "Sources": sources, "Base": base,
	})
	if failed != nil {
		err = failed
	}
	return b.Bytes(), err
}
