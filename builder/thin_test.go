package builder_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
	"github.com/pinbox/pinbox/storage/verity"
)

// library is a file that cannot be compressed, with a change in each release.
func library(release int) string {
	b := make([]byte, 600_000)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(b) // never fails
	return string(b[:300_000]) + fmt.Sprintf("release %d", release) + string(b[300_000:])
}

// rebuilt puts releases of two images into a registry, and returns their pins: each release has another base, in
// which one file has changed and one is new, and the same layers on it.
func rebuilt(t *testing.T, releases int) (pins [][]string) {
	t.Helper()
	registry, _ := appliance.Registry(t)
	layer := func(entries ...sample.Entry) *sample.Layer {
		stream, err := sample.Tar(entries...)
		if err != nil {
			t.Fatal(err)
		}
		l, err := sample.NewLayer(stream, types.OCILayer)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for n := range releases {
		bottom := layer(sample.File("usr/lib/same", strings.Repeat("the same ", 20_000)),
			sample.File("usr/lib/library", library(n)), sample.File("etc/release", fmt.Sprint(n)),
			sample.File(fmt.Sprintf("usr/new-%d", n), fmt.Sprintf("new in %d", n)),
			sample.File("deleted", "by the layer above"))
		var release []string
		for _, name := range []string{"one", "two"} {
			img, err := sample.Image("amd64", false, bottom, layer(sample.File(name, strings.Repeat(name, 1000)),
				sample.Hardlink(name+"-again", name), sample.Whiteout("deleted")))
			if err != nil {
				t.Fatal(err)
			}
			pin, err := registry.Push(t.Context(), "rebuilt/"+name, img)
			if err != nil {
				t.Fatal(err)
			}
			release = append(release, pin)
		}
		pins = append(pins, release)
	}
	return pins
}

// site makes the folders of a site, side by side.
type site struct {
	t    *testing.T
	dir  string
	pins [][]string // of the releases
	// program is the pinbox-node of what is made next; "" for the usual one.
	program string
	level   squashfs.Level // of the stores that are made next
}

func newSite(t *testing.T, releases int) site {
	t.Helper()
	return site{t: t, dir: t.TempDir(), pins: rebuilt(t, releases)}
}

func (s site) options(name string, release int) builder.Options {
	s.t.Helper()
	o := options(s.t, sample.Set("worker", s.pins[release]...))
	o.Appliance.Spec.Store.CompressionLevel = s.level
	o.Out, o.NodeBinary = filepath.Join(s.dir, name), cmp.Or(s.program, o.NodeBinary)
	return o
}

// full makes the folder of an appliance of a release.
func (s site) full(name string, release int) string {
	s.t.Helper()
	o := s.options(name, release)
	build(s.t, o)
	return o.Out
}

// delta makes the folder of a delta to a release.
func (s site) delta(name string, thin bool, release int, from ...string) builder.Result {
	s.t.Helper()
	o := s.options(name, release)
	o.Thin, o.From = thin, from
	r, err := builder.Delta(s.t.Context(), o)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

// rebuild returns the store that a node makes of a thin delta.
func (s site) rebuild(delta string, bases ...string) []byte {
	s.t.Helper()
	open := func(name string) *release.Store {
		r, err := release.Open(name, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { r.Close() })
		store, err := r.Store()
		if err != nil || store == nil {
			s.t.Fatalf("got %v, %v, want a store", store, err)
		}
		return store
	}
	var stores []*release.Store
	for _, b := range bases {
		stores = append(stores, open(b))
	}
	whole, err := base.Rebuild(s.t.Context(), open(delta), stores, s.t.TempDir(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer whole.Close()
	var got bytes.Buffer
	if _, err := io.Copy(&got, whole.Bytes()); err != nil {
		s.t.Fatal(err)
	}
	return got.Bytes()
}

// same compares the store that a node makes of a thin delta with that of the delta.
func (s site) same(delta, thin builder.Result, bases ...string) {
	s.t.Helper()
	want, err := os.ReadFile(filepath.Join(delta.Out, delta.Store))
	if err != nil {
		s.t.Fatal(err)
	}
	got := s.rebuild(thin.Out, bases...)
	if !bytes.HasPrefix(want, got) || verity.Size(int64(len(got))) != int64(len(want)) {
		s.t.Errorf("got another store of %d bytes than that of %d", len(got), len(want))
	}
}

// verified checks a thin delta with its bases.
func (s site) verified(delta string, bases ...string) verify.Result {
	s.t.Helper()
	v, err := verify.Release(s.t.Context(), delta, verify.Options{Bases: bases})
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// The store that a node makes of a thin delta is that of the delta, byte for byte, and thin.storeSize is its size. The
// thin delta is much smaller.
func TestThinDeltaGivesTheDelta(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	old := s.full("old", 0)
	delta, thin := s.delta("delta", false, 1, old), s.delta("thin", true, 1, old)
	if thin.Store != layout.ThinStoreFile || thin.Thin == nil || thin.Thin.StoreSize != delta.StoreSize ||
		thin.StoreRootHash != "" || thin.StoreSize > delta.StoreSize/10 {
		t.Errorf("got %+v of %d bytes, want the store size %d and a tenth of it", thin.Thin, thin.StoreSize, delta.StoreSize)
	}
	s.same(delta, thin, old)
	v := s.verified(thin.Out, old)
	if v.Delta.Thin.Rebuilt != 3 || v.Delta.Mounted != (os.Geteuid() == 0) {
		t.Errorf("got %+v, %+v, want 3 layers, and all mounted for root", v.Delta, v.Delta.Thin)
	}
}

// The estimate of a plan is within a factor of 10 of the thin delta if the base was rebuilt with a small change, and of
// 1.5 for images of which the base has nothing.
func TestThinEstimate(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	old := s.full("old", 0)
	registry, pins := fixtures.Samples(t)
	defer registry.Close()
	for name, c := range map[string]struct {
		images []string
		factor float64
	}{"rebuilt": {s.pins[1], 10}, "new": {[]string{pins.Docker, pins.Mixed}, 1.5}} {
		t.Run(name, func(t *testing.T) {
			s := s
			s.pins = [][]string{c.images}
			o := s.options("estimated-"+name, 0)
			o.Thin, o.From = true, []string{old}
			_, plan, _, err := builder.PlanDelta(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			r, err := builder.Delta(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			off := float64(plan.ThinEstimate) / float64(r.StoreSize)
			if off > c.factor || off < 1/c.factor {
				t.Errorf("got an estimate of %d bytes, want about %d", plan.ThinEstimate, r.StoreSize)
			}
		})
	}
}

// The delta has the level of its appliance, whatever that of its base, and so has the store that a node makes of the
// thin delta.
func TestThinDeltaFollowsTheLevel(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.level = squashfs.Default
	old := s.full("old", 0)
	for _, s.level = range []squashfs.Level{squashfs.Fast, squashfs.Best} {
		name := string(s.level)
		delta, thin := s.delta(name, false, 1, old), s.delta(name+"-thin", true, 1, old)
		s.same(delta, thin, old)
		for _, file := range []string{filepath.Join(delta.Out, delta.Store), filepath.Join(thin.Out, thin.Store)} {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r, err := squashfs.OpenImage(f, delta.StoreSize+thin.StoreSize)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Options().Level; got != s.level {
				t.Errorf("%s: got the level %s, want %s", file, got, s.level)
			}
		}
	}
}

// A thin delta has the program of the nodes if their base has another one.
func TestThinDeltaWithAProgram(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	old := s.full("old", 0)
	program, err := os.ReadFile(s.options("none", 0).NodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	s.program = filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(s.program, append(program, "another one"...), 0o755); err != nil {
		t.Fatal(err)
	}
	s.same(s.delta("delta", false, 1, old), s.delta("thin", true, 1, old), old)
}

// Equal inputs give equal thin deltas, with and without a cache, and whatever the order of the bases.
func TestThinDeltaIsReproducible(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	old, newer := s.full("old", 0), s.full("newer", 1)
	want := s.delta("first", true, 2, old, newer).Out
	sameFolders(t, want, s.delta("second", true, 2, newer, old).Out)
	cache := t.TempDir()
	for _, name := range []string{"cold", "cached"} {
		o := s.options(name, 2)
		o.Thin, o.From, o.Cache.Dir = true, []string{old, newer}, cache
		if _, err := builder.Delta(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		sameFolders(t, want, o.Out)
	}
}

// A node with any of several bases can make the store. Of layers that only one of them has, nothing is read.
func TestThinDeltaForSeveralBases(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	old, newer := s.full("old", 0), s.full("newer", 1)
	both := s.delta("both", true, 2, old, newer)
	if one := s.delta("one", true, 2, newer); len(both.Thin.Reads) != 0 || len(one.Thin.Reads) == 0 {
		t.Errorf("got reads of the layers %v, and of %v with one base, want none and some", both.Thin.Reads, one.Thin.Reads)
	}
	if a, b := s.rebuild(both.Out, old), s.rebuild(both.Out, newer); !bytes.Equal(a, b) {
		t.Error("got two stores, want equal ones")
	}
}

// A thin delta can be made over a thin delta that is beside its base, over an ISO, and over a mounted store.
func TestThinDeltaOverOtherStores(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	old := s.full("old", 0)
	first := s.delta("first", true, 1, old)
	second := s.delta("second", true, 2, first.Out)
	if len(second.Thin.Reads) == 0 || second.StoreSize > first.StoreSize*3/2 {
		t.Errorf("got %d bytes that read %v, want about the %d of the first", second.StoreSize, second.Thin.Reads,
			first.StoreSize)
	}
	s.verified(second.Out, first.Out, old)
	s.verified(second.Out, old, first.Out)
	medium := filepath.Join(s.dir, "first.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: first.Out, Out: medium}); err != nil {
		t.Fatal(err)
	}
	s.verified(medium, old)
	over := s.delta("over-a-medium", true, 2, medium)
	if over.StoreDigest == "" || over.StoreSize != second.StoreSize {
		t.Errorf("got %d bytes over a medium, want %d", over.StoreSize, second.StoreSize)
	}
	if os.Geteuid() == 0 {
		mounted := fixtures.Mount(t, filepath.Join(old, layout.StoreFile))
		if got := s.delta("over-a-mount", true, 1, mounted); got.StoreSize < first.StoreSize*9/10 || len(got.Thin.Reads) == 0 {
			t.Errorf("got %d bytes over a mounted store, want about %d", got.StoreSize, first.StoreSize)
		}
	}
}

// Without the contents of a base there is no thin delta.
func TestThinDeltaNeedsContents(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	old := s.full("old", 0)
	alone := filepath.Join(t.TempDir(), "alone")
	first := s.delta("first", true, 1, old)
	fixtures.Run(t, "cp", "-r", first.Out, alone)
	for name, c := range map[string]struct {
		from string
		want error
	}{
		"a lock":                   {filepath.Join(old, layout.LockFile), base.ErrNoContents},
		"a delta without its base": {alone, base.ErrIncomplete},
	} {
		t.Run(name, func(t *testing.T) {
			o := s.options("none", 2)
			o.Thin, o.From = true, []string{c.from}
			if _, err := builder.Delta(t.Context(), o); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.from) {
				t.Errorf("got %v, want %v of %s", err, c.want, c.from)
			}
			if _, err := os.Stat(o.Out); err == nil {
				t.Error("got a folder, want none")
			}
		})
	}
}

// A base with a damaged content is named with the layer and the path, by the build and by verify.
func TestThinDeltaOfADamagedBase(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	old := s.full("old", 0)
	good := s.delta("good", true, 1, old)
	store := filepath.Join(old, layout.StoreFile)
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(content, []byte(library(0)[1000:1100]))
	if at < 0 {
		t.Fatal("the library is not in the store as it is")
	}
	content[at] ^= 1
	if err := os.WriteFile(store, content, 0o644); err != nil {
		t.Fatal(err)
	}
	o := s.options("new", 1)
	o.Thin, o.From = true, []string{old}
	_, made := builder.Delta(t.Context(), o)
	_, verified := verify.Release(t.Context(), good.Out, verify.Options{Bases: []string{old}})
	for name, err := range map[string]error{"delta": made, "verify": verified} {
		var of *thin.BaseError
		if !errors.As(err, &of) || of.Store != old || of.Path != "usr/lib/library" || len(of.Layer) != 64 {
			t.Errorf("%s: got %v, want %v with base, layer and path", name, err, thin.ErrBase)
		}
	}
	if !errors.Is(verified, release.ErrVerify) {
		t.Errorf("got %v, want %v too", verified, release.ErrVerify)
	}
}
