package builder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// A real CRI-O has the images of a store of each format pinned, and runs one, with the registry stopped.
func TestFormatsOfTheStore(t *testing.T) {
	for _, name := range format.Names() {
		t.Run(name, func(t *testing.T) {
			n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) {
				o.Appliance.Spec.Store.Format = format.Name(name)
			})
			checkImages(t, n, lock)
			id, log := n.RunContainer(pins.Mixed)
			if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
				t.Errorf("got exit code %d of the container, want 0", code)
			}
			if out, err := os.ReadFile(log); err != nil || !strings.Contains(string(out), "hello from the store") {
				t.Errorf("got the output %q, %v; want %q", out, err, "hello from the store")
			}
			if got := n.Do("status"); got.Code != 0 {
				t.Errorf("got exit code %d of pinbox-node status, want 0\n%s%s", got.Code, got.Out, got.Err)
			}
		})
	}
}

// GNU tar extracts the tree that the kernel mounts, with all attributes.
func TestTarHasTheTreeOfTheSquashfs(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	want := fixtures.Tree(t, fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile)))
	o = options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Tar
	build(t, o)
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Run(locale, func(t *testing.T) {
			t.Setenv("LC_ALL", locale)
			dir := t.TempDir()
			appliance.Extract(t, filepath.Join(o.Out, format.TarFile), dir)
			if diff := cmp.Diff(want, fixtures.Tree(t, dir)); diff != "" {
				t.Errorf("tree (-squashfs +tar):\n%s", diff)
			}
		})
	}
	verified(t, o.Out)
}

// Equal builds give equal archives, whether layers are from the registry or from the cache, which
// squashfs uses too.
func TestEqualBuildsGiveEqualTars(t *testing.T) {
	_, pins := fixtures.Samples(t)
	cache := builder.Cache{Dir: t.TempDir()}
	var results []builder.Result
	for _, build := range []struct { // in this order, since they share the cache
		format format.Name
		cache  builder.Cache
	}{{format.Tar, builder.Cache{}}, {format.Squashfs, cache}, {format.Tar, cache}, {format.Tar, cache}} {
		o := options(t, pins.Sets())
		o.Appliance.Spec.Store.Format, o.Cache = build.format, build.cache
		r := appliance.Build(t, o)
		if build.format == format.Tar {
			results = append(results, r)
		}
	}
	for _, r := range results {
		if r.StoreDigest != results[0].StoreDigest || r.StoreSize != results[0].StoreSize || r.Store != format.TarFile {
			t.Errorf("got %+v, want the store of %+v", r, results[0])
		}
	}
}

// A damaged pack in the cache is made again, in the middle of a tar too.
func TestTarOfADamagedCache(t *testing.T) {
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format, o.Cache = format.Tar, builder.Cache{Dir: t.TempDir()}
	want := build(t, o)
	packs, err := filepath.Glob(filepath.Join(o.Cache.Dir, "layers/*/*"))
	if err != nil || len(packs) == 0 {
		t.Fatalf("got the packs %v, %v; want some", packs, err)
	}
	for _, pack := range packs {
		content, err := os.ReadFile(pack)
		if err != nil {
			t.Fatal(err)
		}
		content[len(content)/4] ^= 1
		if err := os.WriteFile(pack, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o.Out += "-again"
	if got := build(t, o); got.StoreDigest != want.StoreDigest {
		t.Errorf("got the store %s, want %s", got.StoreDigest, want.StoreDigest)
	}
}

// A truncated tar is detected by its sum, and by its missing end.
func TestVerifyFindsATarThatEndsEarly(t *testing.T) {
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Tar
	r := build(t, o)
	if err := os.Truncate(filepath.Join(o.Out, format.TarFile), r.StoreSize-512); err != nil {
		t.Fatal(err)
	}
	_, err := verify.Artifact(t.Context(), o.Out, progress.Hooks{})
	if err == nil || !strings.Contains(err.Error(), "store.tar has changed") ||
		!strings.Contains(err.Error(), "store.tar ends early") {
		t.Errorf("got %v, want that store.tar has changed and ends early", err)
	}
}
