package storage

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/pinset"
)

// What a registry lacks is not found, also if its answer has a code and no text, and the error names all images that
// are missing. A bug was that the library's type for such an answer was not known.
func TestNotFoundByCode(t *testing.T) {
	for name, body := range map[string]string{
		"nothing":                   "",
		"a code without text":       `{"errors":[{"code":"MANIFEST_UNKNOWN"}]}`,
		"a code with an empty text": `{"errors":[{"code":"MANIFEST_UNKNOWN","message":""}]}`,
		"a code and null":           `{"errors":[{"code":"MANIFEST_UNKNOWN","message":null,"detail":null}]}`,
		"its text":                  `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown"}]}`,
		"no repository":             `{"errors":[{"code":"NAME_UNKNOWN"}]}`,
		"no errors":                 `{"errors":[]}`,
		"an error without a code":   `{"errors":[{"status":404,"message":"not here"}]}`,
		"HTML":                      "<html>not here</html>",
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v2/" {
					return
				}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(body))
			}))
			defer server.Close()
			host := strings.TrimPrefix(server.URL, "http://")
			client, err := NewClient(Access{Insecure: []string{host}, InsecurePolicy: true}, "linux/amd64")
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			refs := []pinset.Reference{{Repository: host + "/a/one", Tag: "1"}, {Repository: host + "/a/two", Tag: "2"}}
			_, err = client.ResolveReferences(t.Context(), refs, nil)
			if !errors.Is(err, ErrNotFound) {
				t.Fatalf("got %v, want %v", err, ErrNotFound)
			}
			for _, want := range []string{host + "/a/one:1", host + "/a/two:2"} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s in it", err, want)
				}
			}
		})
	}
}

// A bug was that the page of a proxy or of a login, for a tag, was taken for an image that nobody can run.
func TestPagesAreNoManifests(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte("\n<!DOCTYPE html><html>Log in</html>"))
	}))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	client, err := NewClient(Access{Insecure: []string{host}, InsecurePolicy: true}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, err = client.ResolveReferences(t.Context(), []pinset.Reference{{Repository: host + "/a/b", Tag: "1"}}, nil)
	if !errors.Is(err, ErrRegistry) || !strings.Contains(err.Error(), "a page, not a manifest") {
		t.Errorf("got %v, want %v", err, ErrRegistry)
	}
}
