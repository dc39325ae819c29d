package storage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.podman.io/image/v5/pkg/sysregistriesv2"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

func TestCompleteNames(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", "")
	const one = "unqualified-search-registries = [\"quay.io\"]\n"
	const alias = "[aliases]\n\"nginx\" = \"registry.example.com/web/nginx\"\n\"a/b\" = \"quay.io/c\"\n"
	const sum = "@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e"
	for name, c := range map[string]struct {
		config, registry, name string
		want, by               string // "" for a short name that nothing completes; part of what says it
	}{
		"a full name":               {one, "docker.io", "ghcr.io/a/b:1", "ghcr.io/a/b:1", ""},
		"a full name by a digest":   {"", "", "localhost/a" + sum, "localhost/a" + sum, ""},
		"nothing completes":         {"", "", "nginx:1.27", "", ""},
		"by Docker Hub":             {"", "docker.io", "nginx:1.27", "docker.io/library/nginx:1.27", "default registry docker.io"},
		"by its other name":         {"", "index.docker.io", "nginx", "docker.io/library/nginx:latest", "default registry"},
		"with a path":               {"", "docker.io", "rancher/longhorn:1.9", "docker.io/rancher/longhorn:1.9", "docker.io"},
		"by a registry and a port":  {"", "127.0.0.1:5000", "a/b", "127.0.0.1:5000/a/b:latest", "127.0.0.1:5000"},
		"by a path of a registry":   {"", "quay.io/site", "b:1", "quay.io/site/b:1", "quay.io/site"},
		"a digest":                  {"", "quay.io", "a/b" + sum, "quay.io/a/b" + sum, "quay.io"},
		"a tag and a digest":        {one, "", "a/b:1" + sum, "quay.io/a/b:1" + sum, "unqualified-search-registries in"},
		"the only one to search":    {one, "", "nginx:1.27", "quay.io/nginx:1.27", "unqualified-search-registries in"},
		"two to search":             {"unqualified-search-registries = [\"quay.io\", \"docker.io\"]\n", "", "nginx:1.27", "", ""},
		"an alias before a search":  {one + alias, "", "nginx:1.27", "registry.example.com/web/nginx:1.27", "an alias in"},
		"an alias of a path":        {alias, "", "a/b" + sum, "quay.io/c" + sum, "an alias in"},
		"an alias of another":       {alias, "", "a/nginx", "", ""},
		"the flag before an alias":  {one + alias, "docker.io", "nginx", "docker.io/library/nginx:latest", "docker.io"},
		"without library":           {one, "", "docker.io/nginx:1", "", ""},
		"without library by a flag": {"", "quay.io", "docker.io/nginx:1", "docker.io/library/nginx:1", "quay.io"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "registries.conf")
			if err := os.WriteFile(file, []byte(c.config), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Setenv("CONTAINERS_REGISTRIES_CONF", file)
			sysregistriesv2.InvalidateCache()
			t.Cleanup(sysregistriesv2.InvalidateCache)
			got, by, err := CompleteName(c.name, c.registry)
			if c.want == "" {
				if !errors.Is(err, pinset.ErrShortName) || !strings.Contains(err.Error(), c.by) {
					t.Errorf("got %v, %v, want %v with %q", got, err, pinset.ErrShortName, c.by)
				}
				return
			}
			if err != nil || got.String() != c.want || !strings.Contains(by, c.by) || (by == "") != (c.by == "") {
				t.Errorf("got %v by %q, %v, want %s by %q", got, by, err, c.want, c.by)
			}
		})
	}
	file := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(file, []byte("a = ["), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", file)
	sysregistriesv2.InvalidateCache()
	t.Cleanup(sysregistriesv2.InvalidateCache)
	_, _, err := CompleteName("nginx", "")
	if f := fault.Of(err); f == nil || errors.Is(err, pinset.ErrShortName) || !strings.Contains(err.Error(), file) ||
		!strings.Contains(f.Hint, "registries.conf") { // a bug was to say that the name is short, and to add this
		t.Errorf("got %v, want an error of %s alone", err, file)
	}
	if _, _, err := CompleteName("a b", "docker.io"); !errors.Is(err, pinset.ErrBadName) {
		t.Errorf("got %v, want %v", err, pinset.ErrBadName)
	}
}

func TestDefaultRegistries(t *testing.T) {
	for text, good := range map[string]bool{
		"": true, "docker.io": true, "localhost": true, "a:5000": true, "quay.io/site": true,
		"docker": false, "https://docker.io": false, "docker.io/": false, "a b": false, "Docker.io": true,
	} {
		if err := CheckDefaultRegistry(text); (err == nil) != good {
			t.Errorf("%q: got %v, want an error: %v", text, err, !good)
		}
	}
}
