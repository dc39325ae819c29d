package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

const hostConf = `unqualified-search-registries = ["docker.io"]
credential-helpers = ["secretservice"]
[[registry]]
location = "blocked.host"
blocked = true
[[registry]]
prefix = "*.wild.host"
[[registry.mirror]]
location = "mirror.host/wild"
insecure = true
[[registry]]
prefix = "both.host"
location = "elsewhere.host"
mirror-by-digest-only = true
[[registry.mirror]]
location = "mirror.host/both"
`

const dropin = `[[registry]]
location = "ours.host"
[[registry.mirror]]
location = "mirror.host/ours"
pull-from-mirror = "tag-only"
[[registry]]
location = "both.host"
[[registry.mirror]]
location = "mirror.ours/both"
`

// Whatever the host says of registries goes on to count, wherever it says it; of
// one source the drop-in has the last word, as on a node.
func TestDropInComesAfterTheHosts(t *testing.T) {
	for name, place := range map[string]func(t *testing.T, dir string) string{
		"one file": func(t *testing.T, dir string) string {
			t.Setenv("CONTAINERS_REGISTRIES_CONF", filepath.Join(dir, "mine.conf"))
			return "mine.conf"
		},
		"one more file": func(t *testing.T, dir string) string {
			t.Setenv("CONTAINERS_REGISTRIES_CONF_OVERRIDE", filepath.Join(dir, "more.conf"))
			return "more.conf"
		},
		"the user's file":    func(*testing.T, string) string { return "containers/registries.conf" },
		"the user's drop-in": func(*testing.T, string) string { return "containers/registries.conf.d/zzz.conf" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(sysregistriesv2.InvalidateCache) // it would keep the configuration for other tests
			dir := t.TempDir()
			t.Setenv("XDG_CONFIG_HOME", dir)
			path := filepath.Join(dir, place(t, dir))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(hostConf), 0o644)); err != nil {
				t.Fatal(err)
			}
			c, err := NewClient(Access{Registries: []byte(dropin)}, "linux/amd64")
			if err != nil {
				t.Fatal(err)
			}
			checkRegistries(t, c)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(c.registries); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the folder is still there: %v", err)
			}
		})
	}
}

func checkRegistries(t *testing.T, c *Client) {
	t.Helper()
	find := func(name string) *sysregistriesv2.Registry {
		registry, err := sysregistriesv2.FindRegistry(c.sys, name)
		if err != nil || registry == nil {
			t.Fatalf("%s: %v, %v", name, registry, err)
		}
		return registry
	}
	if !find("blocked.host/a").Blocked {
		t.Error("what the host blocks is open")
	}
	if m := find("x.wild.host/a").Mirrors; len(m) != 1 || m[0].Location != "mirror.host/wild" || !m[0].Insecure {
		t.Errorf("the host's mirrors are %+v", m)
	}
	if m := find("ours.host/a").Mirrors; len(m) != 1 || m[0].PullFromMirror != sysregistriesv2.MirrorByTagOnly {
		t.Errorf("our mirrors are %+v", m)
	}
	if r := find("both.host/a"); r.Location != "both.host" || len(r.Mirrors) != 1 ||
		r.Mirrors[0].Location != "mirror.ours/both" || r.MirrorByDigestOnly {
		t.Errorf("the source that both name is %+v", r)
	}
	if helpers, err := sysregistriesv2.CredentialHelpers(c.sys); err != nil || len(helpers) != 1 ||
		helpers[0] != "secretservice" {
		t.Errorf("credential helpers %q, %v", helpers, err)
	}
}

func TestRegistriesConfThatIsBroken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(path, []byte("[[registry]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", path)
	if _, err := NewClient(Access{Registries: []byte(dropin)}, "linux/amd64"); !errors.Is(err, ErrAccess) {
		t.Error(err)
	}
}
