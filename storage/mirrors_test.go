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
location = "dropin.host"
[[registry.mirror]]
location = "mirror.host/dropin"
pull-from-mirror = "tag-only"
[[registry]]
location = "both.host"
[[registry.mirror]]
location = "mirror.dropin/both"
`

// The host's registries stay configured, whichever file they are in. If the drop-in configures the
// same registry, the drop-in applies, as on a node.
func TestDropInComesAfterHostConfiguration(t *testing.T) {
	for name, file := range map[string]func(t *testing.T, dir string) string{
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
			t.Cleanup(sysregistriesv2.InvalidateCache) // else later tests get this configuration
			dir := t.TempDir()
			t.Setenv("XDG_CONFIG_HOME", dir)
			path := filepath.Join(dir, file(t, dir))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
				os.WriteFile(path, []byte(hostConf), 0o644)); err != nil {
				t.Fatal(err)
			}
			c, err := NewClient(Access{Registries: []byte(dropin)}, "linux/amd64")
			if err != nil {
				t.Fatal(err)
			}
			checkRegistries(t, c)
			if _, err := os.Stat(c.sys.SystemRegistriesConfPath); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("registries.conf of the client: got %v, want %v: a program that is killed would leave it", err, fs.ErrNotExist)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func checkRegistries(t *testing.T, c *Client) {
	t.Helper()
	find := func(name string) *sysregistriesv2.Registry {
		registry, err := sysregistriesv2.FindRegistry(c.sys, name)
		if err != nil || registry == nil {
			t.Fatalf("%s: got %v, %v, want a registry", name, registry, err)
		}
		return registry
	}
	if !find("blocked.host/a").Blocked {
		t.Error("blocked.host: got a registry that is not blocked")
	}
	if m := find("x.wild.host/a").Mirrors; len(m) != 1 || m[0].Location != "mirror.host/wild" || !m[0].Insecure {
		t.Errorf("*.wild.host: got mirrors %+v, want mirror.host/wild, insecure", m)
	}
	if m := find("dropin.host/a").Mirrors; len(m) != 1 || m[0].PullFromMirror != sysregistriesv2.MirrorByTagOnly {
		t.Errorf("dropin.host: got mirrors %+v, want one for tags only", m)
	}
	if r := find("both.host/a"); r.Location != "both.host" || len(r.Mirrors) != 1 ||
		r.Mirrors[0].Location != "mirror.dropin/both" || r.MirrorByDigestOnly {
		t.Errorf("both.host: got %+v, want only the drop-in's configuration", r)
	}
	if helpers, err := sysregistriesv2.CredentialHelpers(c.sys); err != nil || len(helpers) != 1 ||
		helpers[0] != "secretservice" {
		t.Errorf("got credential helpers %q, %v, want secretservice", helpers, err)
	}
}

func TestInvalidRegistriesConf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(path, []byte("[[registry]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", path)
	if _, err := NewClient(Access{Registries: []byte(dropin)}, "linux/amd64"); !errors.Is(err, ErrAccess) {
		t.Errorf("got %v, want %v", err, ErrAccess)
	}
}
