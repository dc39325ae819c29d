package storage_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/layout"
)

// blob is one of these bytes, in whose place the file has others when it is sent.
func blob(text, sent string) storage.Upload {
	return storage.Upload{
		Name: "delta.thin", Digest: digest.FromString(text), Size: int64(len(text)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(sent)), nil },
	}
}

// on answers requests with a method.
func on(method string, answer http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method {
			return false
		}
		answer(w, r)
		return true
	}
}

// status answers with a status.
func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// refused is how a registry without OCI artifacts answers a manifest.
func refused(w http.ResponseWriter, r *http.Request) bool {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/manifests/") {
		return false
	}
	status(http.StatusBadRequest, `{"errors":[{"code":"MANIFEST_INVALID","message":"no"}]}`)(w, r)
	return true
}

// A push that fails leaves no manifest, and says why.
func TestPushThatFails(t *testing.T) {
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	client, err := storage.NewClient(
		storage.Access{Insecure: []string{registry.Host}, StallTimeout: 300 * time.Millisecond}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	manifest, err := layout.EncodePushed(nil)
	if err != nil {
		t.Fatal(err)
	}
	release := make(chan bool)
	t.Cleanup(func() { close(release) })
	for name, c := range map[string]struct {
		fault func(http.ResponseWriter, *http.Request) bool
		blob  storage.Upload
		want  error
		text  string
	}{
		"the file changes":   {nil, blob("a thin delta", "A thin delta"), storage.ErrDigest, "delta.thin: blob"},
		"the file is cut":    {nil, blob("a thin delta", "a thin"), storage.ErrDigest, "it ends after 6 of 12 bytes"},
		"no OCI artifacts":   {refused, blob("a", "a"), storage.ErrRefused, ""},
		"read-only registry": {on(http.MethodPost, status(403, "")), blob("c", "c"), storage.ErrUnauthorized, ""},
		"a registry that stalls": {
			on(http.MethodPatch, func(http.ResponseWriter, *http.Request) { <-release }), blob("b", "b"), storage.ErrStalled, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			access.Fault(c.fault)
			_, err := storage.Push(t.Context(), client, registry.Host+"/site/releases:1", manifest, []storage.Upload{c.blob}, nil)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
			access.Fault(nil)
			answer, err := http.Get("http://" + registry.Host + "/v2/site/releases/manifests/1")
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != http.StatusNotFound {
				t.Errorf("got %s for the manifest, want none", answer.Status)
			}
		})
	}
}
