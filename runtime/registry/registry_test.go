package registry_test

import (
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/registry"
	"github.com/pinbox/pinbox/storage/pinset"
)

// serveRegistry serves a registry that accepts only this user, and the pin of an image in it. "" is
// a registry without credentials.
func serveRegistry(t *testing.T, user string) (r *sample.Registry, access *fixtures.Access, pin string) {
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

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeAuthFile writes a file of credentials. users are pairs of a registry or namespace and a user.
func writeAuthFile(t *testing.T, users ...string) string {
	t.Helper()
	var entries []string
	for i := 0; i < len(users); i += 2 {
		entries = append(entries, fmt.Sprintf(`"%s":{"auth":"%s"}`, users[i],
			base64.StdEncoding.EncodeToString([]byte(users[i+1]+":secret"))))
	}
	return writeFile(t, `{"auths":{`+strings.Join(entries, ",")+`}}`)
}

// Credentials are found as in TestRegistryAuth of the Machine Config Operator. In contrast to the
// operator, they may be of a namespace, and entries of other registries are ignored.
func TestCredentials(t *testing.T) {
	source, _, pin := serveRegistry(t, "source")
	mirror, _, _ := serveRegistry(t, "mirror")
	second, _, _ := serveRegistry(t, "second")
	digest := pin[strings.Index(pin, "@"):]
	mirrored := func(from string, mirrors ...*sample.Registry) string {
		conf := fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\nblocked = true\n", from, from)
		for _, m := range mirrors {
			conf += fmt.Sprintf("[[registry.mirror]]\nlocation = \"%s/ns\"\ninsecure = true\n"+
				"pull-from-mirror = \"digest-only\"\n", m.Host)
		}
		return writeFile(t, conf)
	}
	wildcard := writeFile(t, fmt.Sprintf("[[registry]]\nprefix = \"*.invalid\"\n[[registry.mirror]]\n"+
		"location = \"%s/ns\"\ninsecure = true\n", mirror.Host))
	for name, test := range map[string]struct {
		client registry.Client
		pin    string
		want   string // the text of the error
	}{
		"missing file":  {registry.Client{AuthFile: "/no/such/auth.json"}, pin, "/no/such/auth.json: no such file"},
		"host and port": {registry.Client{AuthFile: writeAuthFile(t, source.Host, "source")}, pin, ""},
		"the host without its port": {
			registry.Client{AuthFile: writeAuthFile(t, "127.0.0.1", "source")}, pin, "authentication required",
		},
		"no entry": {registry.Client{AuthFile: writeAuthFile(t)}, pin, "authentication required"},
		"an entry of another registry": {
			registry.Client{AuthFile: writeAuthFile(t, "quay.io", "source")}, pin, "authentication required",
		},
		"wrong password": {
			registry.Client{AuthFile: writeAuthFile(t, source.Host, "other")}, pin, "authentication required",
		},
		"a namespace": {
			registry.Client{AuthFile: writeAuthFile(t, source.Host+"/ns", "source", source.Host, "other")}, pin, "",
		},
		"an entry of a mirror": {
			registry.Client{AuthFile: writeAuthFile(t, mirror.Host, "mirror"), RegistriesConf: mirrored("source.invalid/ns", mirror)},
			"source.invalid/ns/app" + digest, "",
		},
		"an entry of a second mirror": {
			registry.Client{AuthFile: writeAuthFile(t, second.Host, "second"), RegistriesConf: mirrored("source.invalid/ns", mirror,
				second)}, "source.invalid/ns/app" + digest, "",
		},
		"a mirror of a wildcard domain": {
			registry.Client{AuthFile: writeAuthFile(t, mirror.Host, "mirror"), RegistriesConf: wildcard}, "source.invalid/app" + digest,
			"",
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.client.Insecure = []string{"127.0.0.0/8"}
			locked, err := test.client.Resolve(t.Context(), image(t, test.pin))
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err == nil && (locked.Pin != test.pin || len(locked.Layers) != 2 || locked.Layers[0].Size < 500) {
				t.Errorf("got %+v, want %s with two layers", locked, test.pin)
			}
		})
	}
}

// A registry without TLS is used if CRI-O would use it so, by itself or by registries.conf. Loopback is no exception.
func TestRegistryWithoutTLS(t *testing.T) {
	r, _, pin := serveRegistry(t, "")
	for name, test := range map[string]struct {
		insecure []string
		conf     string
		want     bool
	}{
		"neither":         {},
		"another network": {insecure: []string{"10.0.0.0/8", "127.0.0.1:1"}},
		"its network":     {insecure: []string{"10.0.0.0/8", "127.0.0.0/8"}, want: true},
		"its host":        {insecure: []string{r.Host}, want: true},
		"registries.conf": {conf: fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", r.Host), want: true},
	} {
		t.Run(name, func(t *testing.T) {
			c := registry.Client{Insecure: test.insecure, RegistriesConf: writeFile(t, test.conf)}
			_, err := c.Resolve(t.Context(), image(t, pin))
			if test.want && err != nil || !test.want && !errors.Is(err, http.ErrSchemeMismatch) {
				t.Errorf("got %v, want success: %v", err, test.want)
			}
		})
	}
}

// A manifest never changes, so it is requested once and cached. A cached manifest counts only if it
// has the digest in its name.
func TestManifestsAreCached(t *testing.T) {
	_, access, pin := serveRegistry(t, "")
	c := registry.Client{Insecure: []string{"127.0.0.0/8"}, Cache: filepath.Join(t.TempDir(), "manifests")}
	resolve := func(when string, requests int) {
		t.Helper()
		if _, err := c.Resolve(t.Context(), image(t, pin)); err != nil {
			t.Errorf("%s: got %v, want no error", when, err)
		}
		if got := access.Take(); (len(got) > 0) != (requests > 0) {
			t.Errorf("%s: got the requests %v, want some: %v", when, got, requests > 0)
		}
	}
	c.ReadOnly = true
	resolve("read-only cache", 1)
	resolve("read-only cache, again", 1)
	c.ReadOnly = false
	resolve("empty cache", 1)
	resolve("filled cache", 0)
	files, err := os.ReadDir(c.Cache)
	if err != nil || len(files) != 1 {
		t.Fatalf("got the files %v, %v, want one", files, err)
	}
	if err := os.WriteFile(filepath.Join(c.Cache, files[0].Name()), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	resolve("changed cache", 1)
	resolve("repaired cache", 0)
	c.Forget()
	resolve("after Forget", 1)
	c.Cache = "/proc/no/folder"
	resolve("cache that cannot be written", 1)
}

// An index is resolved to its image for this platform.
func TestIndexIsTheImageForThisPlatform(t *testing.T) {
	r, _, _ := serveRegistry(t, "")
	platformImage, err := sample.Stack(1000, 2000, 3000)
	if err != nil {
		t.Fatal(err)
	}
	index, err := sample.Index(platformImage)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := r.PushIndex(t.Context(), "ns/index", index)
	if err != nil {
		t.Fatal(err)
	}
	want, err := platformImage.Digest()
	if err != nil {
		t.Fatal(err)
	}
	locked, err := registry.Client{Insecure: []string{"127.0.0.0/8"}}.Resolve(t.Context(), image(t, pin))
	if err != nil || locked.Manifest.String() != want.String() || locked.Index != image(t, pin).Digest ||
		len(locked.Layers) != 3 {
		t.Errorf("got %+v, %v, want the manifest %s with three layers", locked, err, want)
	}
	empty, err := sample.Index()
	if err != nil {
		t.Fatal(err)
	}
	if pin, err = r.PushIndex(t.Context(), "ns/empty", empty); err != nil {
		t.Fatal(err)
	}
	if _, err := (registry.Client{Insecure: []string{"127.0.0.0/8"}}).Resolve(t.Context(), image(t, pin)); err == nil ||
		!strings.Contains(err.Error(), "no image found") {
		t.Errorf("an empty index: got %v, want that no image was found", err)
	}
}

// Content with another digest than the requested one is refused.
func TestDigestMismatch(t *testing.T) {
	_, access, pin := serveRegistry(t, "")
	access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/manifests/") {
			return false
		}
		_, _ = w.Write([]byte(`{"schemaVersion":2}`))
		return true
	})
	if _, err := (registry.Client{Insecure: []string{"127.0.0.0/8"}}).Resolve(t.Context(), image(t, pin)); !errors.Is(err, registry.ErrDigest) {
		t.Errorf("got %v, want %v", err, registry.ErrDigest)
	}
}

// A registry names in WWW-Authenticate the URL that gives tokens for a password. A bug was to send the password
// to any URL.
func TestPasswordsStayInTheDomainOfTheRegistry(t *testing.T) {
	plain, _, pin := serveRegistry(t, "")
	realm := ""
	front := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer good" {
			httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: plain.Host}).ServeHTTP(w, r)
			return
		}
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q,service=x", realm))
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer front.Close()
	t.Setenv("SSL_CERT_FILE", writeFile(t, string(pem.EncodeToMemory(&pem.Block{
		Type: "CERTIFICATE", Bytes: front.Certificate().Raw,
	}))))
	host := strings.TrimPrefix(front.URL, "https://")
	c := registry.Client{AuthFile: writeAuthFile(t, host, "me")}
	img := image(t, host+pin[strings.Index(pin, "/"):])
	for name, test := range map[string]struct {
		address string
		serve   func(*httptest.Server)
		own     bool
	}{
		"its host":             {"127.0.0.1", (*httptest.Server).StartTLS, true},
		"its host without TLS": {"127.0.0.1", (*httptest.Server).Start, false},
		"another host":         {"127.0.0.2", (*httptest.Server).Start, false},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", test.address+":0")
			if err != nil {
				t.Fatal(err)
			}
			given := ""
			tokens := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.HandlerFunc(
				func(w http.ResponseWriter, r *http.Request) {
					_, given, _ = r.BasicAuth()
					_, _ = w.Write([]byte(`{"token":"good"}`))
				})}}
			test.serve(tokens)
			defer tokens.Close()
			realm = tokens.URL + "/token"
			_, err = c.Resolve(t.Context(), img)
			if (given == "secret") != test.own || (err == nil) != test.own {
				t.Errorf("got %v, and the password %q was sent to %s, want that: %v", err, given, realm, test.own)
			}
		})
	}
}
