package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
)

const mirrors = `apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: release}
spec:
  imageDigestMirrors:
  - source: quay.io/a
    mirrors: [mirror.lab/a, mirror2.lab/a]
    mirrorSourcePolicy: NeverContactSource
  - source: "*.example.com"
---
kind: ConfigMap
---
apiVersion: config.openshift.io/v1
kind: ImageTagMirrorSetList
items:
- apiVersion: config.openshift.io/v1
  kind: ImageTagMirrorSet
  metadata: {name: tools}
  spec:
    imageTagMirrors:
    - {source: quay.io/b, mirrors: [mirror.lab/b], mirrorSourcePolicy: AllowContactingSource}
`

// policy is an object of the older API, as JSON.
const policy = `{"apiVersion": "operator.openshift.io/v1alpha1", "kind": "ImageContentSourcePolicy", "metadata": {"name": "x"},
"spec": {"repositoryDigestMirrors": [{"source": "quay.io/c", "mirrors": ["mirror.lab/c"]}]}}`

func TestMirrors(t *testing.T) {
	dir := filepath.Dir(list(t, "a.yaml", mirrors))
	for name, content := range map[string]string{
		"b.json": policy, "README.md": "kind: Nothing", "other.yaml": "kind: CatalogSource\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rules, warnings, err := source.ReadMirrors(t.Context(), []string{dir, filepath.Join(dir, "a.yaml")}) // a file counts once
	if err != nil {
		t.Fatal(err)
	}
	want := []mirror.Rule{
		{
			Source: "quay.io/a", Mirrors: []string{"mirror.lab/a", "mirror2.lab/a"}, PullFrom: mirror.Digest,
			NeverContactSource: true,
			Origin:             dir + "/a.yaml:6",
		},
		{Source: "*.example.com", PullFrom: mirror.Digest, Origin: dir + "/a.yaml:9"},
		{Source: "quay.io/b", Mirrors: []string{"mirror.lab/b"}, PullFrom: mirror.Tag, Origin: dir + "/a.yaml:21"},
		{Source: "quay.io/c", Mirrors: []string{"mirror.lab/c"}, PullFrom: mirror.Digest, Origin: dir + "/b.json:2"},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(warnings) > 0 { // oc-mirror writes other objects to the folder too
		t.Errorf("got the warnings %q, want none", warnings)
	}
}

// An install-config has the mirrors of a site, and no kind.
func TestMirrorsOfAnInstallConfig(t *testing.T) {
	for _, key := range []string{"imageDigestSources", "imageContentSources"} {
		path := list(t, "install-config.yaml", "apiVersion: v1\nmetadata: {name: edge}\n"+key+
			":\n- mirrors: [mirror.lab/a]\n  source: quay.io/a\n")
		rules, _, err := source.ReadMirrors(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		want := []mirror.Rule{
			{Source: "quay.io/a", Mirrors: []string{"mirror.lab/a"}, PullFrom: mirror.Digest, Origin: path + ":4"},
		}
		if diff := cmp.Diff(want, rules); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
}

// wrongMirrors is a file with an error, and the error.
type wrongMirrors struct {
	content string
	want    error
	text    string // of the error
}

// edit replaces a text of mirrors.
func edit(old, new string) string { return strings.Replace(mirrors, old, new, 1) }

func wrongRules() map[string]wrongMirrors {
	return map[string]wrongMirrors{
		"a scheme": {
			edit("source: quay.io/a", "source: https://quay.io/a"), source.ErrMirrors,
			`x.yaml:6: ImageDigestMirrorSet "release": not a valid object of mirrors: source "https://quay.io/a" has a scheme; write quay.io/a`,
		},
		"a tag":     {edit("source: quay.io/a", "source: quay.io/a:1"), source.ErrMirrors, "write quay.io/a"},
		"no source": {edit("source: quay.io/a", "source: ''"), source.ErrMirrors, "x.yaml:6: "},
		"an entry without source": {
			edit("source: quay.io/b, ", ""), source.ErrMirrors, `x.yaml:21: ImageTagMirrorSet "tools": `,
		},
		"a mirror with a scheme": {
			edit("mirror2.lab", "http://mirror2.lab"), source.ErrMirrors,
			`x.yaml:7: ImageDigestMirrorSet "release": not a valid object of mirrors: mirror of quay.io/a "http://mirror2.lab/a" has a scheme; write mirror2.lab/a`,
		},
		"a mirror of all hosts":   {edit("mirror2.lab/a", "'*.lab'"), source.ErrMirrors, "host[:port][/path]"},
		"an empty mirror":         {edit("mirror2.lab/a", "{}"), source.ErrMirrors, "mirror of quay.io/a is missing"},
		"a mirror twice":          {edit("mirror2.lab/a", "mirror.lab/a"), source.ErrMirrors, "twice"},
		"mirrors that are a text": {edit("[mirror.lab/a, mirror2.lab/a]", "mirror.lab/a"), source.ErrMirrors, "x.yaml:7: "},
		"a forbidden mirror":      {edit("mirror2.lab/a", "quay.io/a"), source.ErrMirrors, "is its own mirror"},
		"an unknown policy": {
			edit("NeverContactSource", "Never"), source.ErrMirrors,
			`x.yaml:8: ImageDigestMirrorSet "release": not a valid object of mirrors: mirrorSourcePolicy is "Never"; it must be NeverContactSource or AllowContactingSource`,
		},
		"an unknown field": {
			edit("mirrorSourcePolicy", "sourcePolicy"), source.ErrMirrors, "x.yaml:8: ImageDigestMirrorSet \"release\": not " +
				"a valid object of mirrors: unknown field spec.imageDigestMirrors[].sourcePolicy; known are source, " +
				"mirrors, mirrorSourcePolicy",
		},
	}
}

func wrongObjects() map[string]wrongMirrors {
	return map[string]wrongMirrors{
		"a list of another kind": {
			edit("imageDigestMirrors", "imageTagMirrors"), source.ErrMirrors,
			"unknown field spec.imageTagMirrors; known are imageDigestMirrors",
		},
		"a mapping for a list": {
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nspec: {imageTagMirrors: {}}\n", source.ErrMirrors,
			"x.yaml:3: ",
		},
		"a policy in the older object": {
			strings.Replace(policy, `"source"`, `"mirrorSourcePolicy": "NeverContactSource", "source"`, 1), source.ErrMirrors,
			"known are source, mirrors",
		},
		"no spec": {
			"apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\n", source.ErrMirrors, "spec is missing",
		},
		"another version": {
			edit("config.openshift.io/v1", "operator.openshift.io/v1alpha1"), source.ErrMirrors,
			`x.yaml:1: not a valid object of mirrors: apiVersion of ImageDigestMirrorSet is "operator.openshift.io/v1alpha1"; it is config.openshift.io/v1`,
		},
		"a misspelt kind": {
			edit("kind: ImageDigestMirrorSet", "kind: ImageDigestMirrorset"), source.ErrMirrors, "is spelt ImageDigestMirrorSet",
		},
		"no kind":       {"apiVersion: config.openshift.io/v1\n", source.ErrMirrors, "kind is missing"},
		"not an object": {"- a\n", source.ErrMirrors, "x.yaml:1: not a valid object of mirrors: not an object"},
		"not YAML":      {"a: [", source.ErrMirrors, "x.yaml"},
		"other objects": {"kind: ConfigMap\n---\n", source.ErrNoMirrors, "x.yaml"},
		"nothing":       {"", source.ErrNoMirrors, "x.yaml"},
	}
}

func TestInvalidMirrors(t *testing.T) {
	for _, tests := range []map[string]wrongMirrors{wrongRules(), wrongObjects()} {
		for name, c := range tests {
			t.Run(name, func(t *testing.T) {
				_, _, err := source.ReadMirrors(t.Context(), []string{list(t, "x.yaml", c.content)})
				if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
					t.Errorf("got %v, want %v: %s", err, c.want, c.text)
				}
			})
		}
	}
	if _, _, err := source.ReadMirrors(t.Context(), []string{"/no/such"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
	// All errors of a file are reported at once.
	_, _, err := source.ReadMirrors(t.Context(), []string{
		list(t, "x.yaml", strings.NewReplacer("quay.io/a", "quay.io/A", "quay.io/b", "quay.io/B").Replace(mirrors)),
	})
	if err == nil || !strings.Contains(err.Error(), "x.yaml:6:") || !strings.Contains(err.Error(), "x.yaml:21:") {
		t.Errorf("got %v, want lines 6 and 21", err)
	}
}

// The objects that oc-mirror writes are read unchanged.
func TestMirrorsOfOCMirror(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(fixtures.Root(t), "../shared/data/oc-mirror/workspace/*/cluster-resources"))
	if err != nil || len(dirs) == 0 {
		t.Skipf("no sample of oc-mirror: %v", err)
	}
	for _, dir := range dirs {
		rules, _, err := source.ReadMirrors(t.Context(), []string{dir})
		if err != nil || len(rules) == 0 {
			t.Errorf("%s: got %d rules, %v; want some", dir, len(rules), err)
			continue
		}
		registries, err := mirror.Merge(rules)
		if err != nil || len(registries) == 0 {
			t.Errorf("%s: got %+v, %v; want registries", dir, registries, err)
		}
		for _, r := range registries {
			if r.Blocked || len(r.Mirrors) == 0 || !strings.HasPrefix(r.Mirrors[0].Location, "127.0.0.1:5072/") {
				t.Errorf("%s: got %+v, want a mirror at 127.0.0.1:5072 first", dir, r)
			}
		}
	}
}
