package storage

import (
	"os"
	"path/filepath"
	"testing"

	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// A host is insecure in every place where it stands, and nothing else is.
func TestInsecureRegistries(t *testing.T) {
	path := filepath.Join(t.TempDir(), "registries.conf")
	if err := os.WriteFile(path, []byte(hostConf), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("CONTAINERS_REGISTRIES_CONF", path)
	t.Cleanup(sysregistriesv2.InvalidateCache) // else later tests get this configuration
	c, err := NewClient(Access{
		Registries: []byte(dropin),
		Insecure:   []string{"new.host:5000", "mirror.dropin", "blocked.host", "one.wild.host", "elsewhere.host"},
	}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, want := range map[string]struct {
		insecure, mirror, blocked bool
	}{
		"new.host:5000/a":     {insecure: true},
		"new.host/a":          {},
		"mirror.dropin/a":     {insecure: true},
		"mirror.dropin:443/a": {insecure: true},
		"blocked.host/a":      {insecure: true, blocked: true},
		"one.wild.host/a":     {insecure: true, mirror: true}, // the mirror of *.wild.host
		"b.wild.host/a":       {mirror: true},
		"both.host/a":         {mirror: true}, // of the drop-in, which replaces elsewhere.host
		"dropin.host/a":       {},
	} {
		r, err := sysregistriesv2.FindRegistry(c.sys, name)
		if err != nil {
			t.Fatal(err)
		}
		if r == nil {
			r = &sysregistriesv2.Registry{}
		}
		mirror := len(r.Mirrors) > 0 && r.Mirrors[0].Insecure
		if r.Insecure != want.insecure || mirror != want.mirror || r.Blocked != want.blocked {
			t.Errorf("%s: got %+v, want %+v", name, r, want)
		}
	}
}
