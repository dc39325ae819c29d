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

// A real CRI-O has every image of a store of every format, pinned, and runs one, with
// the registry stopped.
func TestFormatsOfTheStore(t *testing.T) {
	for _, name := range format.Names() {
		t.Run(name, func(t *testing.T) {
			n, pins, lock := boot(t, func(o *builder.Options, _ sample.Pins) {
				o.Appliance.Spec.Store.Format = format.Name(name)
			})
			checkImages(t, n, lock)
			id, log := n.RunContainer(pins.Mixed)
			if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
				t.Errorf("the container ended with %d", code)
			}
			if out, err := os.ReadFile(log); err != nil || !strings.Contains(string(out), "hello from the store") {
				t.Errorf("the container wrote %q, %v", out, err)
			}
			if said := n.Do("status"); said.Code != 0 {
				t.Errorf("pinbox-node status ends with %d\n%s%s", said.Code, said.Out, said.Err)
			}
		})
	}
}

// What GNU tar extracts is what the kernel mounts, to the last attribute.
func TestTarHoldsTheTreeOfTheSquashfs(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	build(t, o)
	want := fixtures.Tree(t, fixtures.Mount(t, filepath.Join(o.Out, artifact.StoreFile)))
	o = options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Tar
	build(t, o)
	for _, locale := range []string{"C", "C.UTF-8"} {
		t.Setenv("LC_ALL", locale)
		dir := t.TempDir()
		appliance.Extract(t, filepath.Join(o.Out, format.TarFile), dir)
		if diff := cmp.Diff(want, fixtures.Tree(t, dir)); diff != "" {
			t.Errorf("%s (-squashfs +tar):\n%s", locale, diff)
		}
	}
	if _, err := verify.Artifact(t.Context(), o.Out, progress.Hooks{}); err != nil {
		t.Error(err)
	}
}

// Equal builds give equal archives, whether layers come from the registry or out of
// the cache; which is that of squashfs too.
func TestEqualBuildsGiveEqualTars(t *testing.T) {
	_, pins := fixtures.Samples(t)
	kept := builder.Cache{Dir: t.TempDir()}
	var results []builder.Result
	for _, build := range []struct {
		format format.Name
		cache  builder.Cache
	}{{format.Tar, builder.Cache{}}, {format.Squashfs, kept}, {format.Tar, kept}, {format.Tar, kept}} {
		o := options(t, pins.Sets())
		o.Appliance.Spec.Store.Format, o.Cache = build.format, build.cache
		r := appliance.Build(t, o)
		if build.format == format.Tar {
			results = append(results, r)
		}
	}
	for _, r := range results {
		if r.StoreDigest != results[0].StoreDigest || r.StoreSize != results[0].StoreSize || r.Store != format.TarFile {
			t.Errorf("%+v\n%+v", results[0], r)
		}
	}
}

// A cached pack that a disk has lost is made anew, in the middle of a tar too.
func TestTarOfADamagedCache(t *testing.T) {
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format, o.Cache = format.Tar, builder.Cache{Dir: t.TempDir()}
	want := build(t, o)
	packs, err := filepath.Glob(filepath.Join(o.Cache.Dir, "layers/*/*"))
	if err != nil || len(packs) == 0 {
		t.Fatal(packs, err)
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
		t.Errorf("%s, was %s", got.StoreDigest, want.StoreDigest)
	}
}

// A tar that was cut off is found by its sum, and by what it lacks.
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
		t.Error(err)
	}
}
