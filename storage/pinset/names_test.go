package pinset_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors name the file, the line and what is wrong.
func TestDecodeInvalidSets(t *testing.T) {
	fine := object("v1", "s", "", pin("quay.io/x/a", 1))
	spec := "spec:\n  pinnedImages:\n"
	change := func(old, new string) string { return strings.Replace(fine, old, new, 1) }
	notSet, empty, head := pinset.ErrNotSet, pinset.ErrEmptySet, fine[:strings.Index(fine, "spec:")]
	for name, test := range map[string]struct {
		text    string
		want    error
		message string
	}{
		"not an object":     {"- a\n", notSet, "f.yaml:1: " + notSet.Error() + ": not an object"},
		"not YAML":          {"{", notSet, "f.yaml: "},
		"no kind":           {change("kind: PinnedImageSet\n", ""), notSet, "kind is missing"},
		"kind misspelt":     {change("PinnedImageSet", "pinnedImageSet"), notSet, "must be spelled PinnedImageSet"},
		"another group":     {change("machineconfiguration.openshift.io", "example.com"), notSet, "example.com/v1"},
		"another version":   {change("io/v1", "io/v2"), notSet, "/v2"},
		"no name":           {change("  name: s\n", "  labels: {}\n"), notSet, "metadata.name is missing"},
		"a name with a /":   {change("name: s\n", "name: a/b\n"), notSet, `"a/b" is not a lower-case RFC 1123 subdomain`},
		"labels of a list":  {change("  name: s\n", "  name: s\n  labels: [a]\n"), notSet, "f.yaml:5: set \"s\""},
		"generation a word": {change("  name: s\n", "  name: s\n  generation: new\n"), notSet, "metadata.generation"},
		"no spec":           {head, notSet, "spec is missing"},
		"spec a list":       {change(spec, "spec:\n"), notSet, "spec is missing"},
		"no images":         {change(spec, "spec: {}\n#"), empty, "f.yaml:5"},
		"an empty list":     {head + "spec: {pinnedImages: []}\n", empty, "f.yaml:5"},
		"images no list":    {head + "spec: {pinnedImages: {a: b}}\n", notSet, "is not a list"},
		"an entry a string": {change("- name: ", "- "), notSet, "f.yaml:7: "},
		"an entry no name":  {change("- name: ", "- image: "), notSet, "has the form"},
		"an image by tag":   {change("quay.io/x/a@", "quay.io/x/a:1 # "), pinset.ErrNotPinned, "f.yaml:7: set \"s\""},
		"unknown field":     {fine + "data: {}\n", notSet, "f.yaml:8: " + notSet.Error() + ": unknown field data; known are"},
		"unknown in spec":   {fine + "  images: []\n", notSet, "unknown field spec.images"},
		"unknown in entry":  {fine + "    tag: a\n", notSet, "unknown field spec.pinnedImages[].tag"},
		"of a release": {
			`{"image":"quay.io/r@sha256:1","references":{"kind":"ImageStream"}}`, pinset.ErrReleaseInfo,
			"give --release quay.io/r@sha256:1",
		},
		"release, no image": {`{"references":{"kind":"ImageStream"}}`, notSet, "kind is missing"},
		"image, no release": {`{"image":"quay.io/r@sha256:1"}`, notSet, "kind is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			sets, _, err := pinset.DecodeSets(strings.NewReader(test.text), "f.yaml")
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.message) || len(sets) > 0 {
				t.Errorf("got %d sets, %v, want %v: %s", len(sets), err, test.want, test.message)
			}
		})
	}
}

// Objects of other kinds are counted.
func TestDecodeSetsCountsOthers(t *testing.T) {
	other := "kind: ConfigMap\n---\n"
	text := other + object("v1", "s", "", pin("quay.io/x/a", 1)) + "---\n" + other
	sets, others, err := pinset.DecodeSets(strings.NewReader(text), "f.yaml")
	if err != nil || len(sets) != 1 || others != 2 {
		t.Errorf("got %d sets, %d others, %v, want 1, 2", len(sets), others, err)
	}
}

// An image that is listed twice is in the set once, and in Duplicates.
func TestDuplicates(t *testing.T) {
	a, b := pin("quay.io/x/a", 1), pin("quay.io/x/b", 2)
	s := decode(t, object("v1", "s", "", a, b, a))[0]
	if len(s.Images) != 2 || len(s.Duplicates) != 1 || s.Duplicates[0].String() != a {
		t.Errorf("got %v, twice %v, want %s and %s, twice %s", s.Images, s.Duplicates, a, b, a)
	}
}

// CRI-O runs on Linux, on these architectures.
func TestPlatforms(t *testing.T) {
	for platform, want := range map[pinset.Platform]bool{
		"linux/amd64": true, "linux/arm64/v8": true,
		"windows/amd64": false, "linux/386": false, "linux": false, "": false,
	} {
		if err := platform.Validate(); (err == nil) != want {
			t.Errorf("%q: got %v, want valid %v", platform, err, want)
		}
	}
	if os, arch, variant := pinset.Platform("linux/arm64/v8").Split(); os != "linux" || arch != "arm64" ||
		variant != "v8" {
		t.Errorf("got %s, %s, %s, want linux, arm64, v8", os, arch, variant)
	}
}

// A set in a lock equals the set that was locked.
func TestSetOfALock(t *testing.T) {
	s := decode(t, object("v1", "s", "  labels: {a: b}\n", pin("quay.io/x/a", 1)))[0]
	got, err := s.Lock().Set()
	if err != nil || got.Name != s.Name || got.Labels["a"] != "b" || len(got.Images) != 1 || got.Images[0] != s.Images[0] {
		t.Errorf("got %+v, %v, want %+v", got, err, s)
	}
	if _, err := (pinset.LockedSet{Images: []string{"quay.io/x/a:1"}}).Set(); !errors.Is(err, pinset.ErrNotPinned) {
		t.Errorf("got %v, want %v", err, pinset.ErrNotPinned)
	}
}
