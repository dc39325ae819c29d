package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

const digest = "@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e"

func list(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadList(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"text": {"images.txt", "# comment\n\n  quay.io/a/b:1 # why\ndocker://quay.io/a/c" + digest + "\r\nquay.io/a/d\n",
			[]string{"quay.io/a/b:1", "quay.io/a/c" + digest, "quay.io/a/d:latest"}},
		"both tag and digest": {"images", "quay.io/a/b:1" + digest, []string{"quay.io/a/b:1" + digest}},
		"MicroShift": {"release-x86_64.json", `{"release": {"base": "4.18.0"}, "images": {"pod": "quay.io/o/pod` + digest + `", "cli": "quay.io/o/cli` + digest + `"}}`,
			[]string{"quay.io/o/cli" + digest, "quay.io/o/pod" + digest}},
		"MicroShift by another name": {"release", `{"images": {"pod": "quay.io/o/pod:1"}}`, []string{"quay.io/o/pod:1"}},
		"Hauler": {"hauler.yaml", "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata: {name: x}\nspec:\n  images:\n  - name: docker.io/library/busybox:1\n    platform: linux/amd64\n---\nkind: Images\nspec: {images: [{name: quay.io/a/b:2}]}\n",
			[]string{"docker.io/library/busybox:1", "quay.io/a/b:2"}},
	} {
		names, err := source.ReadList(list(t, c.file, c.content))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, n := range names {
			got = append(got, n.String())
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestListsThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          error
		where         string
	}{
		"a typo on line 17":  {"images.txt", strings.Repeat("quay.io/a/b:1\n", 16) + "quay.io/a/B:1\n", pinset.ErrBadName, "images.txt:17: image \"quay.io/a/B:1\""},
		"a short name":       {"images.txt", "\nbusybox:1\n", pinset.ErrShortName, "images.txt:2: image \"busybox:1\": not the full name: it does not name its registry; write docker.io/library/busybox:1"},
		"no library/":        {"images.txt", "docker.io/nginx\n", pinset.ErrShortName, "image \"docker.io/nginx\": not the full name: it lacks the path library/; write docker.io/library/nginx"},
		"the other host":     {"images.txt", "index.docker.io/library/nginx:1\n", pinset.ErrShortName, "it has another name of its registry; write docker.io/library/nginx:1"},
		"comments only":      {"images.txt", "# nothing\n", source.ErrEmptyList, "images.txt"},
		"nothing":            {"images.txt", "", source.ErrEmptyList, "images.txt"},
		"YAML of others":     {"x.yaml", "kind: Pod\nspec: {}\n", source.ErrList, "x.yaml:1"},
		"no YAML":            {"x.yaml", "a: [", source.ErrList, "x.yaml"},
		"empty YAML":         {"x.yaml", "", source.ErrEmptyList, "x.yaml"},
		"a bad name inside":  {"x.json", "{\n\"images\": {\n\"a\": \"quay.io/a/b:1\",\n\"b\": \"quay.io/a/ b\"}}", pinset.ErrBadName, "x.json:4"},
		"another digest":     {"images.txt", "quay.io/a/b@sha512:" + strings.Repeat("a", 128), pinset.ErrNotPinned, "images.txt:1"},
		"a line without end": {"images.txt", strings.Repeat("x", 1<<20), source.ErrList, "images.txt"},
	} {
		_, err := source.ReadList(list(t, c.file, c.content))
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// All that is wrong is said at once.
	_, err := source.ReadList(list(t, "images.txt", "A\nquay.io/a/b\nB\n"))
	if err == nil || !strings.Contains(err.Error(), "images.txt:1:") || !strings.Contains(err.Error(), "images.txt:3:") {
		t.Error(err)
	}
	if _, err := source.ReadList("/no/such"); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
