package layout_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
)

func pushedFile(name string) layout.PushedFile {
	return layout.PushedFile{Name: name, Digest: digest.FromString(name), Size: int64(len(name))}
}

// What was encoded is decoded, in the order of the names. The order in which files are found changes no byte.
func TestPushedManifest(t *testing.T) {
	a, b := pushedFile("SHA256SUMS"), pushedFile("delta.thin")
	manifest, err := layout.EncodePushed([]layout.PushedFile{b, a})
	if err != nil {
		t.Fatal(err)
	}
	if other, err := layout.EncodePushed([]layout.PushedFile{a, b}); err != nil || !bytes.Equal(manifest, other) {
		t.Errorf("got %s and %s, %v, want equal manifests", manifest, other, err)
	}
	got, err := layout.DecodePushed(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, []layout.PushedFile{a, b}); diff != "" {
		t.Errorf("got other files than were encoded:\n%s", diff)
	}
	if store, err := layout.FindPushedStore(got); err != nil || store != b {
		t.Errorf("got the store %v, %v, want %v", store, err, b)
	}
	if _, err := layout.FindPushedStore(got[:1]); !errors.Is(err, layout.ErrNotPushed) {
		t.Errorf("got %v of an artifact without a store, want %v", err, layout.ErrNotPushed)
	}
}

// The blob of the configuration has the digest that the manifest names.
func TestPushedConfig(t *testing.T) {
	manifest, err := layout.EncodePushed(nil)
	want := digest.FromBytes(layout.EmptyConfig()).String()
	if err != nil || !strings.Contains(string(manifest), want) {
		t.Errorf("got %s, %v, want a configuration %s", manifest, err, want)
	}
}

func TestManifestsThatPinboxDidNotPush(t *testing.T) {
	layer := func(name, sum string, size int) string {
		return fmt.Sprintf(`{"digest":%q,"size":%d,"annotations":{"org.opencontainers.image.title":%q}}`, sum, size, name)
	}
	of := func(layers ...string) string {
		return fmt.Sprintf(`{"artifactType":%q,"layers":[%s]}`, layout.PushedType, strings.Join(layers, ","))
	}
	sum := digest.FromString("x").String()
	for name, c := range map[string]struct{ manifest, want string }{
		"no JSON":           {"<html>", "invalid character"},
		"an image":          {`{"layers":[]}`, `its type is ""`},
		"a path":            {of(layer("../delta.thin", sum, 1)), "not the name of a file in a folder"},
		"a hidden file":     {of(layer(".lock", sum, 1)), "not the name of a file in a folder"},
		"no name":           {of(layer("", sum, 1)), "not the name of a file in a folder"},
		"a repeated name":   {of(layer("a", sum, 1), layer("a", sum, 1)), "repeated"},
		"a negative size":   {of(layer("a", sum, -1)), "below 0"},
		"another algorithm": {of(layer("a", "md5:0123", 1)), "digest"},
		"too many files":    {of(slices.Repeat([]string{layer("a", sum, 1)}, 33)...), "33 files"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := layout.DecodePushed([]byte(c.manifest)); !errors.Is(err, layout.ErrNotPushed) ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %v with %q", err, layout.ErrNotPushed, c.want)
			}
		})
	}
}
