package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/cache"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// cached is a registry of one image of several layers, and a cache.
type cached struct {
	t         *testing.T
	sets, dir string
	layers    []string // digests

	mu     sync.Mutex
	asked  []string                                                         // layers, since the last look
	answer func(digest string, w http.ResponseWriter, r *http.Request) bool // whether it did
}

func newCached(t *testing.T) *cached {
	c := &cached{t: t, dir: filepath.Join(t.TempDir(), "cache")}
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		digest := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		c.mu.Lock()
		answer := c.answer
		for _, l := range c.layers {
			if l == digest {
				c.asked = append(c.asked, digest)
			}
		}
		c.mu.Unlock()
		if answer == nil || !answer(digest, w, r) {
			next.ServeHTTP(w, r)
		}
	}))
	var layers []v1.Layer
	for n := range 6 {
		l := layer(t, sample.File(fmt.Sprint("f", n), strings.Repeat(fmt.Sprint(n), 300_000)),
			sample.File("shared", strings.Repeat("shared", 50_000)))
		d, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		c.layers = append(c.layers, d.String())
		layers = append(layers, l)
	}
	c.sets = write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", layers...)),
		push(t, r, image(t, "amd64", layers[:3]...))))
	return c
}

// build returns the store, the number of requested layers, and the messages.
func (c *cached) build(ctx context.Context, want int, flags ...string) (store []byte, asked int, stderr string) {
	c.t.Helper()
	out := filepath.Join(c.t.TempDir(), "out")
	args := append([]string{"build", "--set", c.sets, "--insecure-registry=127.0.0.1", "--node-binary",
		nodeProgram, "-o", out}, flags...)
	code, _, stderr := pinbox(ctx, args...)
	if code != want {
		c.t.Errorf("got exit code %d, want %d\n%s", code, want, stderr)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	asked, c.asked = len(c.asked), nil
	if code == fault.OK {
		store = mustRead(c.t, filepath.Join(out, "store.squashfs"))
	}
	return store, asked, stderr
}

// entries are the packs of layers.
func (c *cached) entries() []string {
	c.t.Helper()
	files, err := filepath.Glob(filepath.Join(c.dir, "layers/*-v"+squashfs.PackVersion+"/[0-9a-f]*"))
	if err != nil {
		c.t.Fatal(err)
	}
	return files
}

// await waits until so many layers are kept, or the client is gone.
func (c *cached) await(client context.Context, layers int) {
	fixtures.Until(c.t, func() error {
		if got := len(c.entries()); got < layers && client.Err() == nil {
			return fmt.Errorf("got %d layers kept, want %d", got, layers)
		}
		return nil
	})
}

// A build of what is kept reads no layer, and gives the same bytes.
func TestCachedBuildsAreEqual(t *testing.T) {
	c := newCached(t)
	want, asked, _ := c.build(t.Context(), fault.OK, "--no-cache")
	if asked != len(c.layers) {
		t.Errorf("got %d requests for layers, want %d", asked, len(c.layers))
	}
	for n, wantAsked := range []int{len(c.layers), 0, 0} {
		got, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
		if asked != wantAsked || !bytes.Equal(got, want) {
			t.Errorf("build %d: got %d requests for layers and equal stores %v, want %d and true", n, asked,
				bytes.Equal(got, want), wantAsked)
		}
	}
	if n := len(c.entries()); n != len(c.layers) {
		t.Errorf("%d layers are kept", n)
	}
}

// What a disk has lost is read again: wherever in an entry the damage is.
func TestDamagedCacheIsMended(t *testing.T) {
	c := newCached(t)
	want, _, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	for _, at := range []float64{0.05, 0.99} { // among the blocks, in the index
		for _, name := range c.entries()[:2] {
			content := mustRead(t, name)
			content[int(at*float64(len(content)))] ^= 1
			if err := os.WriteFile(name, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
		if asked != 2 || !bytes.Equal(got, want) {
			t.Errorf("damage at %v: got %d requests for layers and equal stores %v", at, asked, bytes.Equal(got, want))
		}
	}
	if _, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir); asked != 0 {
		t.Errorf("%d layers asked for after that", asked)
	}
}

// An entry that was copied over that of another layer is not used in its place.
func TestEntryOfAnotherLayerIsMadeAgain(t *testing.T) {
	c := newCached(t)
	want, _, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	if err := os.WriteFile(c.entries()[1], mustRead(t, c.entries()[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	got, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	if asked != 1 || !bytes.Equal(got, want) {
		t.Errorf("got a store of %d bytes, equal: %v, and %d layers asked for; want an equal store and 1", len(got),
			bytes.Equal(got, want), asked)
	}
}

// A cache that others can write to is refused, with a hint.
func TestCacheThatOthersCanWriteIsRefused(t *testing.T) {
	c := newCached(t)
	if err := errors.Join(os.Mkdir(c.dir, 0o700), os.Chmod(c.dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := c.build(t.Context(), fault.Usage, "--cache-dir", c.dir)
	if !strings.Contains(stderr, "chmod go-w "+c.dir) {
		t.Errorf("got %q, want a message with chmod go-w", stderr)
	}
}

// What a build has finished before it came to its end, the next one need not do.
func TestInterruptedBuildKeepsItsLayers(t *testing.T) {
	c := newCached(t)
	ctx, interrupt := context.WithCancel(t.Context())
	last := c.layers[len(c.layers)-1]
	c.answer = func(digest string, _ http.ResponseWriter, r *http.Request) bool {
		if digest != last {
			return false
		}
		c.await(r.Context(), len(c.layers)-1)
		interrupt()
		<-r.Context().Done()
		return true
	}
	if _, asked, _ := c.build(ctx, fault.Interrupted, "--cache-dir", c.dir); asked != len(c.layers) {
		t.Errorf("%d layers asked for", asked)
	}
	c.mu.Lock()
	c.answer = nil
	c.mu.Unlock()
	if _, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir); asked != 1 {
		t.Errorf("%d layers asked for again, want the one", asked)
	}
}

func TestBuildsShareACache(t *testing.T) {
	c := newCached(t)
	want, _, _ := c.build(t.Context(), fault.OK, "--no-cache")
	var builds sync.WaitGroup
	for range 4 {
		builds.Go(func() {
			got, _, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir, "--cache-size", "1Ki")
			if !bytes.Equal(got, want) {
				t.Error("got another store with a shared cache, want the same")
			}
		})
	}
	builds.Wait()
	if got := c.entries(); len(got) > 1 {
		t.Errorf("got %d packs, want fewer within the limit", len(got))
	}
}

func TestCacheCommands(t *testing.T) {
	c := newCached(t)
	c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	do := func(want int, output string, args ...string) string {
		t.Helper()
		code, stdout, stderr := pinbox(t.Context(), append(append([]string{"cache"}, args...), "--cache-dir", c.dir)...)
		if code != want || !strings.Contains(stdout, output) {
			t.Errorf("cache %v: got exit code %d, want %d and %q:\n%s%s", args, code, want, output, stdout, stderr)
		}
		return stdout
	}
	do(fault.OK, "cached: 7 packs", "ls") // one is of pinbox-node
	var entries []cache.Entry
	if err := json.Unmarshal([]byte(do(fault.OK, "", "ls", "--output", "json")), &entries); err != nil ||
		len(entries) != 7 || entries[0].Size == 0 || entries[0].Digest.Validate() != nil {
		t.Errorf("got %v, %v; want 7 entries with sizes and digests", entries, err)
	}
	do(fault.OK, "damaged: 0 packs", "verify")
	if err := os.WriteFile(c.entries()[0], []byte("rubbish"), 0o600); err != nil {
		t.Fatal(err)
	}
	do(fault.Damaged, "damaged and removed: 1 pack", "verify")
	do(fault.OK, "removed: 0 packs", "prune", "--keep", "1GiB")
	do(fault.Usage, "", "prune")
	do(fault.OK, "removed: 6 packs", "prune", "--all")
	do(fault.OK, "cached: 0 packs", "ls")
	do(fault.Usage, "", "prune", "--keep", "much")
	t.Setenv("PINBOX_CACHE_DIR", filepath.Join(t.TempDir(), "missing"))
	if code, _, stderr := pinbox(t.Context(), "cache", "ls"); code != fault.Input || !strings.Contains(stderr, "missing") {
		t.Errorf("a folder of the environment: got exit code %d, want %d\n%s", code, fault.Input, stderr)
	}
	t.Setenv("PINBOX_CACHE_DIR", "")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	if code, stdout, _ := pinbox(t.Context(), "cache", "ls"); code != fault.OK ||
		!strings.Contains(stdout, "cached: 0 packs") {
		t.Errorf("a user without a cache: got exit code %d, want %d and %q\n%s",
			code, fault.OK, "cached: 0 packs", stdout)
	}
	c.dir += "-misspelt"
	do(fault.Input, "", "ls")
	do(fault.Usage, "")
}

func TestBadCaches(t *testing.T) {
	c := newCached(t)
	file := write(t, "file", nil)
	for want, flags := range map[string][]string{
		"cache cannot be used":         {"--cache-dir", filepath.Join(file, "cache")},
		"contradict each other":        {"--cache-dir", c.dir, "--no-cache"},
		"--cache-dir is empty":         {"--cache-dir", ""},
		`--cache-size: "many"`:         {"--cache-dir", c.dir, "--cache-size", "many"},
		`--cache-size: "-1GiB" is not`: {"--cache-dir", c.dir, "--cache-size=-1GiB"},
	} {
		t.Run(want, func(t *testing.T) {
			_, _, stderr := c.build(t.Context(), fault.Usage, flags...)
			if !strings.Contains(stderr, want) || !strings.Contains(stderr, "hint: ") {
				t.Errorf("got the message\n%s\nwant %q and a hint", stderr, want)
			}
		})
	}
}

// An image may not say of a blob what another blob unpacks to, whether that was read
// in this build or is kept: nodes go by the record of both.
func TestBlobsAreReadBeforeTheyAreBelieved(t *testing.T) {
	r := serve(t, nil)
	stream, err := layer(t, sample.File("victim", "y")).Compressed()
	if err != nil {
		t.Fatal(err)
	}
	victim, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	honest := push(t, r, image(t, "amd64", layer(t, sample.File("a", "x"))))
	liar := push(t, r, image(t, "amd64", layer(t, sample.File("below", "z")),
		layer(t, sample.File("a", "x")).WithBlob(victim)))
	dir := t.TempDir()
	for _, step := range []struct {
		pins []string
		code int
	}{
		{[]string{liar}, fault.Damaged}, {[]string{honest, liar}, fault.Damaged}, {[]string{honest}, fault.OK},
		{[]string{liar}, fault.Damaged},
	} {
		code, _, stderr := pinbox(t.Context(), "build", "--set", write(t, "sets.yaml", sample.Set("worker", step.pins...)),
			"--insecure-registry=127.0.0.1",
			"--node-binary", nodeProgram, "-o", filepath.Join(t.TempDir(), "out"), "--cache-dir", dir)
		if code != step.code {
			t.Errorf("%v: got exit code %d, want %d\n%s", step.pins, code, step.code, stderr)
		}
	}
}

// Somebody may empty the cache while a build is at it.
func TestPruneDuringABuild(t *testing.T) {
	c := newCached(t)
	want, _, _ := c.build(t.Context(), fault.OK, "--no-cache")
	var first atomic.Bool
	c.answer = func(digest string, _ http.ResponseWriter, r *http.Request) bool {
		if slices.Contains(c.layers, digest) && first.CompareAndSwap(false, true) { // the others go on
			c.await(r.Context(), 1)
			if code, _, stderr := pinbox(t.Context(), "cache", "prune", "--all", "--cache-dir", c.dir); code != fault.OK {
				t.Errorf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
			}
		}
		return false
	}
	if got, _, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir); !bytes.Equal(got, want) {
		t.Error("got another store, want the same")
	}
}

// A sector that cannot be read is damage like any other.
func TestEntryThatCannotBeRead(t *testing.T) {
	c := newCached(t)
	want, _, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	name := c.entries()[0]
	if err := errors.Join(os.Remove(name), os.Mkdir(name, 0o700)); err != nil {
		t.Fatal(err)
	}
	if got, asked, _ := c.build(t.Context(), fault.OK, "--cache-dir", c.dir); asked != 1 || !bytes.Equal(got, want) {
		t.Errorf("%d layers asked for, equal: %v", asked, bytes.Equal(got, want))
	}
}

// Users without a home, as services have, build without a cache.
func TestNoPlaceForACache(t *testing.T) {
	c := newCached(t)
	cmd := exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), "build", "--set", c.sets,
		"--insecure-registry=127.0.0.1",
		"--node-binary", nodeProgram, "-o", filepath.Join(t.TempDir(), "out"))
	cmd.Env = append(os.Environ(), "HOME=/proc/none", "XDG_CACHE_HOME=")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "nothing is kept for later builds") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A build is done when its folder is there, whatever becomes of the cache behind it.
func TestCacheThatCannotBePruned(t *testing.T) {
	c := newCached(t)
	c.build(t.Context(), fault.OK, "--cache-dir", c.dir)
	if err := os.WriteFile(filepath.Join(c.dir, "layers", "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, stderr := c.build(t.Context(), fault.OK, "--cache-dir", c.dir, "--cache-size", "1Ki")
	if !strings.Contains(stderr, "the cache keeps its size") {
		t.Errorf("got no warning, want one:\n%s", stderr)
	}
}
