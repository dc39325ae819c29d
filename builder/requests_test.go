package builder_test

import (
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// crowd counts requests that are answered at the same time.
type crowd struct {
	mu        sync.Mutex
	now, most int
}

func (c *crowd) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.add(1)
		defer c.add(-1)
		next.ServeHTTP(w, r)
	})
}

func (c *crowd) add(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += n
	c.most = max(c.most, c.now)
}

// A build asks for each manifest and each blob once. It asks for the registry itself, and for a token, once
// for each repository: the images of an OpenShift release are in one. Bugs were to open each image twice,
// to resolve it and to fetch its layers, with a request for the registry and for the manifest each.
func TestRequestsOfARelease(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		images     int
		repository func(i int) string
		pings      int
	}{
		"one repository":     {30, func(int) string { return "openshift/release" }, 1},
		"more images":        {60, func(int) string { return "openshift/release" }, 1},
		"other repositories": {12, func(i int) string { return fmt.Sprint("openshift/release-", i%3) }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			var access fixtures.Access
			var parallel crowd
			registry, err := sample.Serve(func(h http.Handler) http.Handler { return parallel.wrap(access.Wrap(h)) })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { registry.Close() })
			var pins []string
			for i := range test.images {
				pin, err := registry.PushStack(t.Context(), test.repository(i), 1000, 2000+i/10, 3000+i)
				if err != nil {
					t.Fatal(err)
				}
				pins = append(pins, pin)
			}
			access.Take()
			appliance.Build(t, options(t, sample.Set("worker", pins...)))
			asked, pings := map[string]int{}, 0
			for _, r := range access.Take() {
				if r.Path == "/v2/" {
					pings++
					continue
				}
				asked[r.Path[strings.LastIndex(r.Path, "/")+1:]]++
			}
			for what, n := range asked {
				if n != 1 {
					t.Errorf("got %d requests for %s, want 1", n, what)
				}
			}
			// A manifest, a configuration and a layer of each image, and those that several share.
			if want := 3*test.images + (test.images+9)/10 + 1; len(asked) != want {
				t.Errorf("got requests for %d manifests and blobs, want %d", len(asked), want)
			}
			if pings != test.pings {
				t.Errorf("got %d requests for the registry, want %d", pings, test.pings)
			}
			if parallel.most > 32 {
				t.Errorf("got %d requests at a time, want at most 32", parallel.most)
			}
		})
	}
}

// The check of signatures needs no second request for a manifest, of an index either.
func TestRequestsForSignedImages(t *testing.T) {
	t.Parallel()
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pins, err := registry.Fill(t.Context(), mustRead(t, fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/program")))
	if err != nil {
		t.Fatal(err)
	}
	trust := signedSamples(t, registry, pins)
	o := options(t, sample.Set("worker", pins.Pause, pins.Docker, pins.Mixed))
	o.Access.Policy, o.Access.RegistriesDir = trust.policy, trust.registriesD
	access.Take()
	appliance.Build(t, o)
	asked := map[string]int{}
	for _, r := range access.Take() {
		if asked[r.Path]++; asked[r.Path] > 1 && r.Path != "/v2/" {
			t.Errorf("got another request for %s, want one", r.Path)
		}
	}
}

// Layers of an image are fetched while others are not resolved yet: the link to a registry would idle. A bug was
// that the first layer was asked for after the last manifest.
func TestLayersAreFetchedBeforeAllManifests(t *testing.T) {
	t.Parallel()
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	var pins []string
	for i := range 2 {
		pin, err := registry.PushStack(t.Context(), fmt.Sprint("site/app-", i), 1000+i)
		if err != nil {
			t.Fatal(err)
		}
		pins = append(pins, pin)
	}
	var blobs atomic.Int32
	layer := make(chan struct{})
	access.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/site/app-0/blobs/"):
			if blobs.Add(1) == 2 { // the first one is the configuration
				close(layer)
			}
		case strings.Contains(r.URL.Path, "/site/app-1/manifests/"):
			<-layer // with the bug, until `go test` ends it
		}
		return false
	})
	appliance.Build(t, options(t, sample.Set("worker", pins...)))
}

// compressing is a goroutine that compresses, in a trace. Functions of NewCompressor run in others, too.
var compressing = regexp.MustCompile(`squashfs\.NewCompressor\.func\d+\(\)\n\t.*\nsync\.\(\*WaitGroup\)\.Go`)

// What packs layers while images are resolved packs the others, too. A bug was that the store had workers and memory of
// its own beside it, and checked the packs of the first ones once more.
func TestLayersArePackedByTheSameWorkers(t *testing.T) {
	registry, _ := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "stack", 1000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", pin))
	var most atomic.Int64
	o.Hooks.Done = func(int) {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		if n := int64(len(compressing.FindAll(stacks, -1))); n > most.Load() {
			most.Store(n)
		}
	}
	appliance.Build(t, o)
	if got, want := int(most.Load()), runtime.GOMAXPROCS(0); got != want {
		t.Errorf("got %d goroutines that compress, want %d", got, want)
	}
}
