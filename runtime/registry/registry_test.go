package registry_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/storage/pinset"
)

// guarded is a registry that lets in only these credentials, and an image in it.
func guarded(t *testing.T, user string) (r *sample.Registry, access *fixtures.Access, pin string) {
	t.Helper()
	access = &fixtures.Access{}
	r, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if pin, err = r.PushStack(t.Context(), "ns/app", 1000, 2000); err != nil {
		t.Fatal(err)
	}
	access.Take()
	access.Fault(func(w http.ResponseWriter, req *http.Request) bool {
		if name, password, _ := req.BasicAuth(); user == "" || name == user && password == "secret" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="registry"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	return r, access, pin
}

func image(t *testing.T, pin string) pinset.Image {
	t.Helper()
	img, err := pinset.ParseImage(pin)
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// auths is a file of credentials: registry or namespace, and user.
func auths(t *testing.T, users ...string) string {
	t.Helper()
	var entries []string
	for i := 0; i < len(users); i += 2 {
		entries = append(entries, fmt.Sprintf(`"%s":{"auth":"%s"}`, users[i],
			base64.StdEncoding.EncodeToString([]byte(users[i+1]+":secret"))))
	}
	return write(t, `{"auths":{`+strings.Join(entries, ",")+`}}`)
}

// U1 of the Machine Config Operator, TestRegistryAuth, and what it gets wrong:
// namespaces of credentials, and an entry that is of no concern.
func TestU1RegistryAuth(t *testing.T) {
	source, _, pin := guarded(t, "source")
	mirror, _, _ := guarded(t, "mirror")
	second, _, _ := guarded(t, "second")
	digest := pin[strings.Index(pin, "@"):]
	mirrored := func(from string, mirrors ...*sample.Registry) string {
		conf := fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\nblocked = true\n", from, from)
		for _, m := range mirrors {
			conf += fmt.Sprintf("[[registry.mirror]]\nlocation = \"%s/ns\"\ninsecure = true\n"+
				"pull-from-mirror = \"digest-only\"\n", m.Host)
		}
		return write(t, conf)
	}
	wildcard := write(t, fmt.Sprintf("[[registry]]\nprefix = \"*.invalid\"\n[[registry.mirror]]\n"+
		"location = \"%s/ns\"\ninsecure = true\n", mirror.Host))
	for name, test := range map[string]struct {
		client registry.Client
		pin    string
		says   string // of the error
	}{
		"missing file": {
			registry.Client{AuthFile: "/no/such/auth.json"}, pin, "/no/such/auth.json: no such file",
		},
		"host and port": {registry.Client{AuthFile: auths(t, source.Host, "source")}, pin, ""},
		"the host without its port": {
			registry.Client{AuthFile: auths(t, "127.0.0.1", "source")}, pin, "authentication required",
		},
		"no entry": {registry.Client{AuthFile: auths(t)}, pin, "authentication required"},
		"another's entry": {
			registry.Client{AuthFile: auths(t, "quay.io", "source")}, pin, "authentication required",
		},
		"wrong password": {
			registry.Client{AuthFile: auths(t, source.Host, "nobody")}, pin, "authentication required",
		},
		"a namespace": {
			registry.Client{AuthFile: auths(t, source.Host+"/ns", "source", source.Host, "nobody")}, pin, "",
		},
		"a mirror's": {
			registry.Client{AuthFile: auths(t, mirror.Host, "mirror"), RegistriesConf: mirrored("source.invalid/ns", mirror)},
			"source.invalid/ns/app" + digest, "",
		},
		"a second mirror's": {
			registry.Client{AuthFile: auths(t, second.Host, "second"), RegistriesConf: mirrored("source.invalid/ns", mirror,
				second)}, "source.invalid/ns/app" + digest, "",
		},
		"a mirror of a wildcard domain": {
			registry.Client{AuthFile: auths(t, mirror.Host, "mirror"), RegistriesConf: wildcard}, "source.invalid/app" + digest,
			"",
		},
	} {
		locked, err := test.client.Resolve(t.Context(), image(t, test.pin))
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v, want %q", name, err, test.says)
		}
		if err == nil && (locked.Pin != test.pin || len(locked.Layers) != 2 || locked.Layers[0].Size < 500) {
			t.Errorf("%s: %+v", name, locked)
		}
	}
}

// Manifests never change, so each is asked for once, whatever happens; what is in
// the cache counts only if it is what its name says.
func TestManifestsAreCached(t *testing.T) {
	_, access, pin := guarded(t, "")
	c := registry.Client{Cache: filepath.Join(t.TempDir(), "manifests")}
	ask := func(when string, requests int) {
		t.Helper()
		if _, err := c.Resolve(t.Context(), image(t, pin)); err != nil {
			t.Errorf("%s: %v", when, err)
		}
		if got := access.Take(); (len(got) > 0) != (requests > 0) {
			t.Errorf("%s: requests %v", when, got)
		}
	}
	c.ReadOnly = true
	ask("the cache is not to be written", 1)
	ask("so it is empty", 1)
	c.ReadOnly = false
	ask("for the first time", 1)
	ask("for the second time", 0)
	files, err := os.ReadDir(c.Cache)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(filepath.Join(c.Cache, files[0].Name()), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	ask("somebody changed the cache", 1)
	ask("it was mended", 0)
	c.Forget()
	ask("it was emptied", 1)
	c.Cache = "/proc/no/folder"
	ask("it cannot be written", 1)
}

// An index counts as the image for this platform, not as nothing.
func TestIndexIsTheImageForThisPlatform(t *testing.T) {
	r, _, _ := guarded(t, "")
	ours, err := sample.Stack(1000, 2000, 3000)
	if err != nil {
		t.Fatal(err)
	}
	index, err := sample.Index(ours)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := r.PushIndex(t.Context(), "ns/index", index)
	if err != nil {
		t.Fatal(err)
	}
	want, err := ours.Digest()
	if err != nil {
		t.Fatal(err)
	}
	locked, err := registry.Client{}.Resolve(t.Context(), image(t, pin))
	if err != nil || locked.Manifest.String() != want.String() || locked.Index != image(t, pin).Digest ||
		len(locked.Layers) != 3 {
		t.Errorf("%+v, %v", locked, err)
	}
	empty, err := sample.Index()
	if err != nil {
		t.Fatal(err)
	}
	if pin, err = r.PushIndex(t.Context(), "ns/empty", empty); err != nil {
		t.Fatal(err)
	}
	if _, err := (registry.Client{}).Resolve(t.Context(), image(t, pin)); err == nil ||
		!strings.Contains(err.Error(), "no image found") {
		t.Errorf("an index for nobody: %v", err)
	}
}

func TestOtherContentIsRefused(t *testing.T) {
	_, access, pin := guarded(t, "")
	access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		_, _ = w.Write([]byte(`{"schemaVersion":2}`))
		return true
	})
	if _, err := (registry.Client{}).Resolve(t.Context(), image(t, pin)); !errors.Is(err, registry.ErrDigest) {
		t.Errorf("%v", err)
	}
}
