package builder_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// manyImages makes an OCI layout of n images, numbered from from on.
func manyImages(t testing.TB, from, n int) source.Location {
	t.Helper()
	dir := t.TempDir()
	if err := sample.WriteLayout(dir, from, n); err != nil {
		t.Fatal(err)
	}
	return source.Location{Path: dir}
}

func planMany(t testing.TB, o builder.Options) {
	t.Helper()
	if _, _, err := builder.Plan(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func buildMany(t testing.TB, o builder.Options) {
	t.Helper()
	o.Out = filepath.Join(t.TempDir(), "out")
	appliance.Build(t, o)
}

// The work for an image does not depend on the number of images. Bugs were to read the index of an OCI
// layout once for each image (4,000 images took 61 s of CPU), to sort the set of layouts once for each
// layout, and to search the records of a store or the mapping of oc-mirror once for each image. The work
// is measured in allocations, which do not depend on the load of the machine.
func TestWorkGrowsWithTheImages(t *testing.T) {
	once := options(t, nil) // allocations that happen once
	once.Appliance.Spec.Sources = []source.Entry{layoutOf(t, 10)}
	buildMany(t, once)
	for name, test := range map[string]struct {
		source func(t *testing.T, n int) source.Entry
		work   func(testing.TB, builder.Options)
	}{
		"plan of a layout":     {layoutOf, planMany},
		"build of a layout":    {layoutOf, buildMany},
		"plan of many layouts": {layoutsOf, planMany},
		"plan of moved tags":   {twoLayoutsOf, planMoved},
		"plan of an archive":   {archiveOf, planMany},
		"plan of a store":      {storeOf, planMany},
		"plan of oc-mirror":    {ocMirrorOf, planMany},
	} {
		t.Run(name, func(t *testing.T) {
			count := func(n int) uint64 {
				o := options(t, nil)
				o.Appliance.Spec.Sources = []source.Entry{test.source(t, n)}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				test.work(t, o)
				runtime.ReadMemStats(&after)
				return after.Mallocs - before.Mallocs
			}
			few, some, many := count(20), count(60), count(180)
			if first, later := (some-few)/40, (many-some)/120; later > first*9/8 {
				t.Errorf("got %d allocations for each of the last 120 of 180 images, want at most 9/8 of %d, as for each of\n"+
					"the last 40 of 60", later, first)
			}
		})
	}
}

func layoutOf(t *testing.T, n int) source.Entry {
	return source.Entry{Source: &source.OCI{manyImages(t, 0, n)}}
}

func layoutsOf(t *testing.T, n int) source.Entry {
	var layouts source.OCI
	for i := range n {
		layouts = append(layouts, manyImages(t, i, 1))
	}
	return source.Entry{Source: &layouts}
}

// twoLayoutsOf returns a source of two layouts: one image is in the second, the others in the first.
func twoLayoutsOf(t *testing.T, n int) source.Entry {
	return source.Entry{Source: &source.OCI{manyImages(t, 1, n-1), manyImages(t, 0, 1)}}
}

// planMoved plans with a lock in which each tag has the digest of the image of the second layout.
func planMoved(t testing.TB, o builder.Options) {
	t.Helper()
	made, _, err := builder.Plan(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	second := made.ByTag()["quay.example.com/many/image-0:1"]
	for _, img := range made.Images {
		repository, _, _ := strings.Cut(img.Pin, "@")
		o.Lock.Images = append(o.Lock.Images, pinset.LockedImage{
			Pin: repository + "@" + second.Digest.String(), Tags: img.Tags,
		})
	}
	planMany(t, o)
}

func archiveOf(t *testing.T, n int) source.Entry {
	file := filepath.Join(t.TempDir(), "images.tar")
	fixtures.Run(t, "tar", "-C", manyImages(t, 0, n).Path, "-cf", file, ".")
	return source.Entry{Source: &source.Archives{{Path: file}}}
}

// storeOf returns a source that is a store of n images.
func storeOf(t *testing.T, n int) source.Entry {
	fixtures.NeedRoot(t) // the files of the store have many owners
	o, dir := options(t, nil), filepath.Join(t.TempDir(), "store")
	o.Appliance.Spec.Sources = []source.Entry{layoutOf(t, n)}
	appliance.Build(t, o)
	fixtures.Run(t, "unsquashfs", "-no-xattrs", "-dest", dir, filepath.Join(o.Out, layout.StoreFile))
	return source.Entry{Source: &source.ContainersStorage{Path: dir}}
}

// ocMirrorOf returns a source that is an output of oc-mirror with n images of charts and a mapping of them.
func ocMirrorOf(t *testing.T, n int) source.Entry {
	dir := manyImages(t, 0, n).Path
	content, err := os.ReadFile(filepath.Join(dir, "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index v1.IndexManifest
	if err := json.Unmarshal(content, &index); err != nil {
		t.Fatal(err)
	}
	m := sample.Mirror{Dir: t.TempDir()}
	var mapping []byte
	for i, img := range index.Manifests {
		mapping = fmt.Appendf(mapping,
			"docker://quay.example.com/many/image-%[1]d:1=docker://mirror.example.com/site/many/image-%[1]d:1\n", i)
		if err := m.Write(fmt.Sprintf("docker/registry/v2/repositories/many/image-%d/_manifests/tags/1/current/link", i),
			[]byte(img.Digest.String())); err != nil {
			t.Fatal(err)
		}
	}
	blobs, err := os.ReadDir(filepath.Join(dir, "blobs/sha256"))
	if err != nil {
		t.Fatal(err)
	}
	for _, blob := range blobs {
		content, err := os.ReadFile(filepath.Join(dir, "blobs/sha256", blob.Name()))
		if err := errors.Join(err, m.Write(sample.Blob(blob.Name()), content)); err != nil {
			t.Fatal(err)
		}
	}
	charts := append(sample.ImageSet(), "  helm: {local: [{name: x}]}\n"...)
	if err := errors.Join(m.Write("isc_2026-11-21T02:04:52Z", charts),
		m.Write("working-dir/dry-run/mapping.txt", mapping)); err != nil {
		t.Fatal(err)
	}
	return source.Entry{Source: &source.OCMirror{Paths: []string{m.Dir}}}
}

// BenchmarkManyImages compares 1,000 and 4,000 images of one OCI layout.
func BenchmarkManyImages(b *testing.B) {
	for name, work := range map[string]func(testing.TB, builder.Options){"plan": planMany, "build": buildMany} {
		for _, n := range []int{1000, 4000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				o := options(b, nil)
				o.Appliance.Spec.Sources = []source.Entry{{Source: &source.OCI{manyImages(b, 0, n)}}}
				before := cpuTime(b)
				for b.Loop() {
					work(b, o)
				}
				images := float64(n * b.N)
				b.ReportMetric(float64(b.Elapsed())/images, "ns/image")
				b.ReportMetric(float64(cpuTime(b)-before)/images, "cpu-ns/image")
			})
		}
	}
}

// cpuTime returns the CPU time of this process.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
