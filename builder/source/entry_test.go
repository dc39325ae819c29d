package source_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/source"
)

func decodeEntries(content string) (entries []source.Entry, err error) {
	dec := yaml.NewDecoder(strings.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(&entries); err != nil {
		return nil, source.YAMLError("a.yaml", err)
	}
	return entries, nil
}

func TestDecodeEntries(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    source.Source
	}{
		"a list":             {"- images: [a, b]", &source.Images{"a", "b"}},
		"a mapping":          {"- release: {image: quay.io/a/b:1}", &source.Release{Image: "quay.io/a/b:1"}},
		"a list of mappings": {"- oci: [{path: a, name: b}]", &source.OCI{{Path: "a", Name: "b"}}},
		"empty ones beside another": {
			"- {images: [], release: {}, imageLists: , archives: [{path: a}]}", &source.Archives{{Path: "a"}},
		},
		"an alias": {"- manifests: &all [a]\n- manifests: *all", &source.Manifests{Paths: []string{"a"}}},
		"a mapping that is merged": {
			"- &first {imageLists: [a], set: x}\n- {<<: *first, pools: [worker]}", &source.ImageLists{"a"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := decodeEntries(c.content)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if diff := cmp.Diff(c.want, e.Source); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if err := e.Validate("appliance"); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestInvalidEntries(t *testing.T) {
	const listWanted, mappingWanted = "want a list", "want a mapping"
	for name, c := range map[string]struct {
		content string
		want    []string // each in the message
	}{
		"no mapping":               {"- x", []string{"a.yaml:1: got a text, " + mappingWanted}},
		"an unknown key in a kind": {"- release:\n    image: a\n    signature: b", []string{":3: field signature not found"}},
		"a text for a list":        {"- images: a", []string{"a.yaml:1: got a text, " + listWanted}},
		"a mapping for a list":     {"- oci:\n    path: a", []string{"a.yaml:2: got a mapping, " + listWanted}},
		"a list for a mapping":     {"- ocMirror: [a]", []string{"a.yaml:1: got a list, " + mappingWanted}},
		"a key twice":              {"- images: [a]\n  images: [b]", []string{"a.yaml:2", "already defined"}},
		"a wrong set and wrong kind": {
			"- set: [a]\n  manifests: x", []string{"a.yaml:1: got a list, want a text", "a.yaml:2: got a text"},
		},
		"everything wrong": {
			"- images: [a]\n  pools: x\n  archives: x\n- release: {x: y}",
			[]string{":2: got a text", ":3: got a text", ":4: field x"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeEntries(c.content)
			if err == nil {
				t.Fatal("got no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant %q in it", err, want)
				}
			}
		})
	}
}

func TestValidateEntries(t *testing.T) {
	for name, c := range map[string]struct{ content, want string }{
		"nothing":       {"- {}", "names no input; give it one of pinnedImageSets, images, imageLists, "},
		"an empty list": {"- images: []", "names no input"},
		"a set alone":   {"- set: a", "names no input"},
		"two kinds": {
			"- {release: {image: quay.io/a/b:1}, images: [a]}", "has images and release; make it a source for each",
		},
		"a set of sets":       {"- {pinnedImageSets: [a], set: b}", "has set or pools, but PinnedImageSets have"},
		"a bad set":           {"- {images: [a], set: A}", `has the set or pool "A"`},
		"a bad pool":          {"- {images: [a], pools: [a, B]}", `has the set or pool "B"`},
		"an oci without path": {"- oci: [{path: a}, {name: b}]", "has no oci[1].path"},
		"an archive without":  {"- archives: [{name: b}]", "has no archives[0].path"},
		"a bad pull spec":     {"- release: {image: a}", "release image"},
		"signatures, no keys": {
			"- release: {image: quay.io/a/b:1, signatures: {files: [a]}}", "release has signatures without both",
		},
		"stores alone":  {"- ocMirror: {config: a, stores: [b]}", "ocMirror has stores, which"},
		"a bad pattern": {"- ocMirror: {paths: [a], exclude: ['[']}", `ocMirror has the exclude pattern "["`},
	} {
		t.Run(name, func(t *testing.T) {
			entries, err := decodeEntries(c.content)
			if err != nil {
				t.Fatal(err)
			}
			if err := entries[0].Validate("appliance"); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
}

// Paths in an appliance file are relative to its folder, so PathFields of each kind must return all of
// its paths.
func TestPathFields(t *testing.T) {
	entries, err := decodeEntries(`
- pinnedImageSets: [p]
- images: [quay.io/a/b:1]
- imageLists: [p, p]
- manifests: [p]
- release: {image: quay.io/a/b:1, signatures: {files: [p], keys: [p]}}
- ocMirror: {paths: [p], stores: [p], config: p, signatures: {files: [p], keys: [p]}}
- oci: [{path: p, name: n}]
- archives: [{path: p}]
- containersStorage: {path: p, images: [n]}
`)
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	for _, e := range entries {
		for _, path := range e.Source.PathFields() {
			if *path != "p" {
				t.Errorf("got the path %q of %T, want p", *path, e.Source)
			}
		}
		got = append(got, len(e.Source.PathFields()))
	}
	if diff := cmp.Diff([]int{1, 0, 2, 1, 2, 5, 1, 1, 1}, got); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
}
