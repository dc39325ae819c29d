package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// site has a registry and a mirror of it, both with two images by indexes, of one repository.
type site struct {
	registry, mirror *sample.Registry
	of, at           *fixtures.Access // requests to the registry, and to the mirror
	images           []pinset.Image
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{of: &fixtures.Access{}, at: &fixtures.Access{}}
	for _, r := range []struct {
		registry **sample.Registry
		access   *fixtures.Access
	}{{&s.registry, s.of}, {&s.mirror, s.at}} {
		registry, err := sample.Serve(r.access.Wrap)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { registry.Close() })
		*r.registry = registry
		s.images = nil
		for i := range 2 {
			img, err := sample.Stack(3000+i, 4000)
			if err != nil {
				t.Fatal(err)
			}
			index, err := sample.Index(img)
			if err != nil {
				t.Fatal(err)
			}
			pin, err := registry.PushIndex(t.Context(), "site/app", index)
			if err != nil {
				t.Fatal(err)
			}
			parsed, err := pinset.ParseImage(strings.Replace(pin, registry.Host, s.registry.Host, 1))
			if err != nil {
				t.Fatal(err)
			}
			s.images = append(s.images, parsed)
		}
		r.access.Take()
	}
	return s
}

// fetch reads all documents and layers of the images, as a build does.
func (s *site) fetch(t *testing.T, more string) error {
	t.Helper()
	client, err := NewClient(Access{
		Insecure: []string{"127.0.0.1"}, StallTimeout: 3 * time.Second,
		Registries: fmt.Appendf(nil, "[[registry]]\nlocation = %q\n%s[[registry.mirror]]\nlocation = %q\n",
			s.registry.Host, more, s.mirror.Host),
	}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	resolved, err := client.Resolve(t.Context(), s.images, nil)
	if err != nil {
		return err
	}
	for _, r := range resolved {
		for _, l := range r.Layers {
			blob, err := client.openLayer(t.Context(), r.Image, l, fetching{})
			if err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, blob)
			if err := errors.Join(err, blob.Close()); err != nil {
				return err
			}
		}
	}
	return nil
}

// count counts the requests for manifests and blobs.
func count(requests []fixtures.Request) (n int) {
	for _, r := range requests {
		if strings.Contains(r.Path, "/manifests/") || strings.Contains(r.Path, "/blobs/") {
			n++
		}
	}
	return n
}

// Each image, manifest and blob is asked of the mirror and, if that does not give it, of the registry. Bugs were that
// the image which was asked for first decided for all of its repository, and that a mirror that lacked a layer ended
// a build.
func TestMirrorThatLacksSomething(t *testing.T) {
	s := newSite(t)
	if err := s.fetch(t, ""); err != nil {
		t.Fatal(err)
	}
	all := s.at.Take()
	if got := count(s.of.Take()); got != 0 {
		t.Fatalf("got %d requests to the registry, want none while the mirror has all", got)
	}
	status := func(code int) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(code); return true }
	}
	reset := func(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }
	first, child := s.images[0].Digest.String(), ""
	var blobs []string
	for _, r := range all {
		name := r.Path[strings.LastIndexByte(r.Path, '/')+1:]
		switch {
		case strings.Contains(r.Path, "/blobs/"):
			blobs = append(blobs, name)
		case strings.Contains(r.Path, "/manifests/") && name != first && name != s.images[1].Digest.String() && child == "":
			child = name
		}
	}
	for name, test := range map[string]struct {
		path   string // a part of it, of what the mirror lacks
		answer func(http.ResponseWriter, *http.Request) bool
		least  int // requests that the registry gets
		most   int
	}{
		"an index":                {first, status(http.StatusNotFound), 5, 5}, // and all that belongs to it
		"a manifest of an index":  {child, status(http.StatusNotFound), 1, 2},
		"a blob":                  {blobs[0], status(http.StatusNotFound), 1, 2},
		"the right to read it":    {blobs[0], status(http.StatusForbidden), 1, 2},
		"a connection for a blob": {blobs[0], reset, 1, len(all)}, // it is left alone then
		"all manifests":           {"/manifests/", status(http.StatusNotFound), len(all) - 1, len(all)},
		"all blobs":               {"/blobs/", status(http.StatusNotFound), len(blobs), len(blobs) + 1},
		"everything":              {"/v2/", status(http.StatusBadGateway), len(all) - 1, len(all)},
	} {
		t.Run(name, func(t *testing.T) {
			s.at.Fault(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.Contains(r.URL.Path, test.path) && test.answer(w, r)
			})
			defer s.at.Fault(nil)
			if err := s.fetch(t, ""); err != nil {
				t.Error(err)
			}
			got := count(s.of.Take())
			if got < test.least || got > test.most {
				t.Errorf("got %d requests to the registry, want %d to %d", got, test.least, test.most)
			}
			s.at.Take()
		})
	}
}

// The error of the registry counts, and that of a mirror stands behind it. A bug was that a mirror that was down made
// the hint one about networks while the registry did not have the image.
func TestErrorsOfMirrors(t *testing.T) {
	for name, test := range map[string]struct {
		mirror, registry int
		more             string // of the registry's configuration
		want             error
	}{
		"a mirror is down":                       {502, 404, "", ErrNotFound},
		"a mirror refuses":                       {403, 404, "", ErrNotFound},
		"the registry refuses":                   {404, 403, "", ErrUnauthorized},
		"the registry is blocked":                {404, 200, "blocked = true\n", ErrBlocked},
		"the registry is blocked, a mirror down": {502, 200, "blocked = true\n", ErrRegistry},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			fault := func(status int) func(http.ResponseWriter, *http.Request) bool {
				return func(w http.ResponseWriter, r *http.Request) bool {
					if r.URL.Path == "/v2/" || status == http.StatusOK {
						return false
					}
					w.WriteHeader(status)
					return true
				}
			}
			s.at.Fault(fault(test.mirror))
			s.of.Fault(fault(test.registry))
			err := s.fetch(t, test.more)
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), s.mirror.Host) {
				t.Errorf("got %v, want %v and the mirror %s", err, test.want, s.mirror.Host)
			}
			for _, img := range s.images {
				if errors.Is(test.want, ErrNotFound) && !strings.Contains(err.Error(), img.String()) {
					t.Errorf("got %v, want each image that is missing, as %s", err, img)
				}
			}
		})
	}
}

// A server that does not answer is none that admits no more requests. A bug was that a request which was made again
// was taken for one that the library had repeated after the status 429.
func TestServerThatDoesNotAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var said []string
	client, err := NewClient(Access{InsecurePolicy: true, Retrying: func(line string) {
		if said = append(said, line); len(said) == 2 {
			cancel()
		}
	}}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	refs := []pinset.Reference{{Repository: host + "/a/one", Tag: "1"}}
	if _, err := client.ResolveReferences(ctx, refs, nil); err == nil {
		t.Error("got no error")
	}
	for _, line := range said {
		if !strings.Contains(line, "connection refused; asking again in ") {
			t.Errorf("got the line %q, want that the connection is refused", line)
		}
	}
	if len(said) != 2 {
		t.Errorf("got the lines %q, want two", said)
	}
}
