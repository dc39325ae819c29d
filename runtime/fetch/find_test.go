package fetch_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/signature"
)

// content stands for a store: nothing here reads it.
const content = "a thin delta"

// TestMain makes the client trust the certificate of httptest.
func TestMain(m *testing.M) {
	server := httptest.NewTLSServer(nil)
	f, err := os.CreateTemp("", "pinbox-test-")
	if err == nil {
		err = pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	if err != nil {
		panic(err)
	}
	os.Setenv("SSL_CERT_FILE", f.Name())
	code := m.Run()
	_ = os.Remove(f.Name())
	os.Exit(code)
}

// files serves files by HTTPS; those that begin with a slash redirect.
func files(t *testing.T, files map[string]string) (url string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := files[r.URL.Path]
		switch {
		case !ok:
			http.NotFound(w, r)
		case strings.HasPrefix(text, "http"):
			http.Redirect(w, r, text, http.StatusFound)
		case text == "403":
			http.Error(w, "denied", http.StatusForbidden)
		default:
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// sums are those of a file.
func sums(name, content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:]) + "  " + name + "\n"
}

// A store is named by its file or by its folder. The file has any name, and the sums too are those of a medium.
func TestFind(t *testing.T) {
	url := files(t, map[string]string{
		"/1/delta.thin": content, "/1/SHA256SUMS": sums("pinbox.lock.json", "") + sums("delta.thin", content),
		"/2/store.squashfs": content, "/2/sums.txt": sums("store.squashfs", content), "/2/SHA256SUMS": "403",
		"/3/site 7.thin": content, "/3/SHA256SUMS": sums("site 7.thin", content), "/3/site 7.thin.sig": "a signature",
	})
	for source, name := range map[string]string{
		"/1/delta.thin": "delta.thin", "/1/": "delta.thin", "/2/store.squashfs": "store.squashfs",
		"/3/site%207.thin": "site 7.thin", "/1/delta.thin?token=x": "delta.thin",
	} {
		s, err := fetch.Find(t.Context(), []string{url + source}, fetch.Options{})
		if err != nil || s.Name != name || s.Size != int64(len(content)) || s.Digest != digest.FromString(content) {
			t.Errorf("%s: got %+v, %v, want %s with its size and digest", source, s, err, name)
			continue
		}
		file := filepath.Join(t.TempDir(), s.Name)
		if _, err := s.Fetch(t.Context(), file, fetch.Options{}); err != nil {
			t.Errorf("%s: got %v, want no error", source, err)
			continue
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != content {
			t.Errorf("%s: got %q, %v, want the store", source, got, err)
		}
		_, err = os.Stat(file + ".sig")
		if signed := strings.HasPrefix(source, "/3/"); (err == nil) != signed {
			t.Errorf("%s: got %v for its signature, want one: %v", source, err, signed)
		}
	}
}

// What cannot be attached in the end is refused before the store is fetched.
func TestFindRefuses(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, sums("delta.thin", "hostile"))
	}))
	t.Cleanup(plain.Close)
	url := files(t, map[string]string{
		"/1/delta.thin": content, "/1/SHA256SUMS": sums("delta.thin", content),
		"/2/delta.thin": content, "/2/SHA256SUMS": "<html>log in to the guest network</html>",
		"/3/delta.thin": content, "/3/SHA256SUMS": plain.URL,
		"/4/SHA256SUMS": sums("appliance.iso", content), "/5/SHA256SUMS": sums("delta.thin", content),
		"/6/delta.thin": content, "/6/SHA256SUMS": sums("delta.thin", content), "/6/delta.thin.sig": "not one",
		"/7/delta.thin": content, "/7/SHA256SUMS": strings.Repeat("x", 2<<20),
	})
	keys := newKeys(t)
	for name, c := range map[string]struct {
		source string
		o      fetch.Options
		want   error
		text   string
	}{
		"no host":             {"https:///delta.thin", fetch.Options{}, fetch.ErrName, ""},
		"a fragment":          {url + "/1/delta.thin#x", fetch.Options{}, fetch.ErrName, ""},
		"a password":          {strings.Replace(url, "//", "//me:secret@", 1) + "/1/", fetch.Options{}, fetch.ErrName, "me:xxxxx@"},
		"HTTP":                {plain.URL + "/delta.thin", fetch.Options{}, fetch.ErrPlain, ""},
		"no sum":              {url + "/1/other.thin", fetch.Options{}, stores.ErrNoDigest, ""},
		"sums that are none":  {url + "/2/delta.thin", fetch.Options{}, stores.ErrNoDigest, "SHA256SUMS"},
		"a redirect to HTTP":  {url + "/3/delta.thin", fetch.Options{}, fetch.ErrServer, "which is not HTTPS"},
		"endless sums":        {url + "/7/", fetch.Options{}, fetch.ErrServer, "more than"},
		"no store in sums":    {url + "/4/", fetch.Options{}, stores.ErrNoStore, "lists none"},
		"no sums in a folder": {url + "/8/", fetch.Options{}, stores.ErrNoStore, "404"},
		"no file":             {url + "/5/", fetch.Options{}, stores.ErrNoStore, "404"},
		"unsigned":            {url + "/1/", fetch.Options{Keys: keys}, stores.ErrUnsigned, ""},
		"not a signature":     {url + "/6/", fetch.Options{Keys: keys}, stores.ErrSignature, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := fetch.Find(t.Context(), []string{c.source}, c.o)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("got the password in %v", err)
			}
		})
	}
}

// The digest of the caller makes up for sums and for TLS. A server with another store is found out.
func TestDigestOfTheCaller(t *testing.T) {
	plain := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/delta.thin" {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, content)
	}))
	defer plain.Close()
	for text, want := range map[string]error{content: nil, "A thin delta": fetch.ErrChanged} {
		o := fetch.Options{Digest: digest.FromString(text)}
		s, err := fetch.Find(t.Context(), []string{plain.URL + "/delta.thin"}, o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Fetch(t.Context(), filepath.Join(t.TempDir(), s.Name), o); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

// A server that never answers does not hold a node for ever: the caller ends the search.
func TestFindEndsWithItsContext(t *testing.T) {
	release := make(chan bool)
	server := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := fetch.Find(ctx, []string{server.URL + "/delta.thin"}, fetch.Options{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

// newKeys are those of a node with one key.
func newKeys(t *testing.T) signature.Keys {
	t.Helper()
	_, public := fixtures.Key(t)
	keys, err := signature.ReadKeysDir(filepath.Dir(public))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Several URLs of one store are asked in turn: for what is beside it, and for its bytes while a server fails. What one
// of them gives of another store is fetched again from the next.
func TestMirrors(t *testing.T) {
	good := map[string]string{"/1/delta.thin": content, "/1/SHA256SUMS": sums("delta.thin", content)}
	url := files(t, good)
	empty := files(t, nil)
	late := files(t, map[string]string{"/1/delta.thin": strings.Repeat("x", len(content)), "/1/SHA256SUMS": "403"})
	closed := httptest.NewTLSServer(nil)
	closed.Close()
	for name, c := range map[string]struct {
		sources []string
		mirrors int
	}{
		"the first is not there":        {[]string{closed.URL + "/1/", url + "/1/"}, 1},
		"the first has none":            {[]string{empty + "/1/", url + "/1/delta.thin"}, 1},
		"the second is never asked":     {[]string{url + "/1/", closed.URL + "/1/"}, 1},
		"the same twice":                {[]string{url + "/1/", url + "/1/delta.thin"}, 0},
		"the first has another content": {[]string{late + "/1/", url + "/1/"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := fetch.Find(t.Context(), c.sources, fetch.Options{})
			if err != nil || s.Digest != digest.FromString(content) || len(s.Mirrors) != c.mirrors {
				t.Fatalf("got %+v, %v, want the store and %d mirrors", s, err, c.mirrors)
			}
			s.Origin, s.Mirrors = c.sources[0]+"delta.thin", []string{url + "/1/delta.thin"} // the first comes first here, too
			file := filepath.Join(t.TempDir(), s.Name)
			if _, err = s.Fetch(t.Context(), file, fetch.Options{}); err != nil {
				t.Errorf("got %v, want the store", err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != content {
				t.Errorf("got %q, %v, want the store", got, err)
			}
		})
	}
	_, err := fetch.Find(t.Context(), []string{url + "/1/", "/mnt/delta.thin"}, fetch.Options{})
	if !errors.Is(err, fetch.ErrName) || !strings.Contains(err.Error(), "/mnt/delta.thin") {
		t.Errorf("a path beside a URL: got %v, want %v", err, fetch.ErrName)
	}
	_, err = fetch.Find(t.Context(), []string{empty + "/1/", closed.URL + "/1/"}, fetch.Options{})
	if err == nil || !strings.Contains(err.Error(), empty) || !strings.Contains(err.Error(), closed.URL) {
		t.Errorf("got %v, want both servers in it", err)
	}
}
