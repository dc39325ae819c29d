package source_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
)

// The table of inputs in the documentation is made of the table of kinds.
func TestKindsGolden(t *testing.T) {
	var rows strings.Builder
	for _, kind := range source.Kinds() {
		key := "`" + kind.Key + "`"
		for _, flag := range kind.Flags {
			fmt.Fprintf(&rows, "| %s | `--%s %s` | %s |\n", key, flag.Name, flag.Value, cmp.Or(flag.Doc, kind.Doc))
			key = "" // its other flags
		}
	}
	content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "docs", "build.md"))
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(\n\| in .spec\.sources. \|.*\n\|---\|---\|---\|\n)(?:\|.*\n)*`)
	if n := len(table.FindAll(content, -1)); n != 1 {
		t.Fatalf("docs/build.md: got %d tables of inputs, want 1", n)
	}
	got := table.ReplaceAll(content, []byte("${1}"+rows.String()))
	fixtures.Golden(t, "../../docs/build.md", got)
}

// Every kind can be decoded and filled in by its flags, and has what the documentation shows.
func TestKindsAreWhole(t *testing.T) {
	seen := map[string]bool{"set": true, "pools": true} // keys and flags
	for _, kind := range source.Kinds() {
		t.Run(kind.Key, func(t *testing.T) {
			if kind.Key == "" || kind.Doc == "" || len(kind.Flags) == 0 {
				t.Errorf("got %+v, want a key, a sentence and a flag", kind)
			}
			if seen[kind.Key] {
				t.Errorf("got two kinds with the key %s, want one", kind.Key)
			}
			seen[kind.Key] = true
			for _, flag := range kind.Flags {
				if seen["--"+flag.Name] || flag.Name == "" || flag.Value == "" {
					t.Errorf("got the flag %+v, want a name of its own and a value", flag)
				}
				seen["--"+flag.Name] = true
				before, after := kind.New(), kind.New()
				flag.Set(after, "quay.io/a/b:1")
				if gocmp.Equal(before, after) {
					t.Errorf("--%s: got an unchanged source, want a changed one", flag.Name)
				}
			}
		})
	}
}

// What flags name is what an appliance file would.
func TestFromFlags(t *testing.T) {
	values := map[string][]string{
		"set": {"a", "b"}, "image": {"i"}, "release": {"r"}, "oci": {"dir=quay.io/a/b:1", "other"},
		"oc-mirror": {"m"}, "image-set-config": {"c"}, "oc-mirror-exclude": {"x", "y"},
		"containers-storage": {"n", "[overlay@/store+/run]containers", "containers-storage:[overlay@/other]m"},
	}
	const file = `
- pinnedImageSets: [a, b]
- images: [i]
- release: {image: r}
- ocMirror: {paths: [m], config: c, exclude: [x, y]}
- oci: [{path: dir, name: "quay.io/a/b:1"}, {path: other}]
- containersStorage: {images: [n]}
- containersStorage: {path: /store, images: [containers]}
- containersStorage: {path: /other, images: [m]}
`
	var want []source.Entry
	if err := yaml.Unmarshal([]byte(file), &want); err != nil {
		t.Fatal(err)
	}
	got := source.FromFlags(values)
	if len(got) != len(want) {
		t.Fatalf("got %d sources, want %d", len(got), len(want))
	}
	for i := range want {
		if diff := gocmp.Diff(want[i].Source, got[i].Source); diff != "" {
			t.Errorf("source %d (-want +got):\n%s", i, diff)
		}
	}
}
