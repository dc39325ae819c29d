package builder_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/v1/types"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/oracle"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
)

// dir builds an appliance of the samples with a store of format dir.
func dir(t *testing.T, change func(*builder.Options)) (builder.Options, sample.Pins) {
	t.Helper()
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Dir
	if change != nil {
		change(&o)
	}
	build(t, o)
	return o, pins
}

// records reads layers.json or images.json of a store by ID, without fields that differ between writers.
func records(t *testing.T, store, name string) (all map[string]map[string]any) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(store, name))
	var list []map[string]any
	if err == nil {
		err = json.Unmarshal(content, &list)
	}
	if err != nil {
		t.Fatal(err)
	}
	all = map[string]map[string]any{}
	for _, r := range list {
		if strings.Contains(name, "layers") {
			delete(r, "created")
			delete(r, "compression") // of the stream that containers/storage has read
		}
		all[r["id"].(string)] = r
	}
	return all
}

// containers/storage writes what pinbox composes: records, documents, trees of images, and the lock.
func TestDirEqualsTheSquashfs(t *testing.T) {
	o, pins := dir(t, nil)
	other := options(t, pins.Sets())
	build(t, other)
	ours, theirs := fixtures.Mount(t, filepath.Join(other.Out, layout.StoreFile)), filepath.Join(o.Out, layout.StoreDir)
	for _, name := range []string{"overlay-images/images.json", "overlay-layers/layers.json"} {
		if diff := cmp.Diff(records(t, theirs, name), records(t, ours, name)); diff != "" {
			t.Errorf("%s (-library +pinbox):\n%s", name, diff)
		}
	}
	for id := range records(t, ours, "overlay-images/images.json") {
		for _, file := range entriesOf(t, filepath.Join(ours, "overlay-images", id)) {
			want, err := os.ReadFile(filepath.Join(ours, "overlay-images", id, file))
			if err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(filepath.Join(theirs, "overlay-images", id, file)); err != nil ||
				string(got) != string(want) {
				t.Errorf("%s of image %s: got %q, %v; want %q", file, id, got, err, want)
			}
		}
	}
	if diff := cmp.Diff(appliance.Lock(t, other.Out), appliance.Lock(t, o.Out)); diff != "" {
		t.Errorf("the lock (-squashfs +dir):\n%s", diff)
	}
	composed, written := oracle.Open(t, "", ours), oracle.Open(t, "", theirs)
	for _, pin := range pins.All() {
		if diff := cmp.Diff(fixtures.Tree(t, oracle.Mount(t, written, pin)),
			fixtures.Tree(t, oracle.Mount(t, composed, pin))); diff != "" {
			t.Errorf("%s (-library +pinbox):\n%s", pin, diff)
		}
	}
	for _, complaint := range oracle.Check(t, written) {
		// containers/storage does not find a file that it has written there. The same happens after a pull.
		if !strings.Contains(complaint, "below-an-absolute-link") {
			t.Errorf("got %q from Check, want nothing", complaint)
		}
	}
	if diff := cmp.Diff(fixtures.Tree(t, filepath.Join(ours, "pinbox", "sets")),
		fixtures.Tree(t, filepath.Join(theirs, "pinbox", "sets"))); diff != "" {
		t.Errorf("sets (-squashfs +dir):\n%s", diff)
	}
}

// entriesOf returns the names of a folder's entries.
func entriesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// A store of format dir can be CRI-O's main store.
func TestDirIsAMainStore(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	fixtures.NeedRoot(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Dir
	o.Appliance.Spec.Node.Store.Path = provision.MainStore
	build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n := crio.New(t, filepath.Join(o.Out, artifact.IgnitionFile))
	fixtures.Run(t, "cp", "-a", filepath.Join(o.Out, layout.StoreDir), n.Path("root"))
	pause := "[crio.image]\npause_image = \"" + pins.Pause + "\"\n"
	if err := os.WriteFile(n.Etc("crio.conf.d/10-pause"), []byte(pause), 0o644); err != nil {
		t.Fatal(err)
	}
	n.Start()
	checkImages(t, n, appliance.Lock(t, o.Out))
	id, _ := n.RunContainer(pins.Mixed)
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
	if got := n.Do("status"); got.Code != 0 {
		t.Errorf("got exit code %d of pinbox-node status, want 0\n%s%s", got.Code, got.Out, got.Err)
	}
}

// verify reports changed and missing files, and replaced short names.
func TestVerifyReportsChangesOfADir(t *testing.T) {
	o, _ := dir(t, nil)
	verify := func() string {
		if _, err := verify.Release(t.Context(), o.Out, verify.Options{}); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := verify(); got != "" {
		t.Fatalf("got %s before a change, want no error", got)
	}
	store := filepath.Join(o.Out, layout.StoreDir)
	first := func(pattern string) string {
		t.Helper()
		all, err := filepath.Glob(filepath.Join(store, pattern))
		if err != nil || len(all) == 0 {
			t.Fatalf("got %v, %v for %s, want a file", all, err, pattern)
		}
		return all[0]
	}
	large, short, split := first("overlay/*/diff/data/large"), first("overlay/l/*"), first("overlay-layers/*.tar-split.gz")
	f, err := os.OpenFile(large, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("X"), 1000)
	}
	if err := errors.Join(err, f.Close(), os.Remove(short), os.Remove(split)); err != nil {
		t.Fatal(err)
	}
	got := verify()
	for file, what := range map[string]string{large: "has changed", short: "is not a link to layer", split: "is missing"} {
		name, err := filepath.Rel(o.Out, file)
		if err != nil || !strings.Contains(got, name+" "+what) {
			t.Errorf("got %s, %v; want %s %s", got, err, name, what)
		}
	}
}

// strange pushes an image whose files have unusual names, and returns its pin.
func strange(t *testing.T) string {
	t.Helper()
	registry, _ := appliance.Registry(t)
	stream, err := sample.Tar(sample.File("new\nline", "a"), sample.File(`back\slash`, "b"), sample.File("return\r", "c"),
		sample.File(" blank ", "d"), sample.File("\xff", "e"))
	if err != nil {
		t.Fatal(err)
	}
	layer, err := sample.NewLayer(stream, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, layer)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.Push(t.Context(), "strange", img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// Files may have names that sha256sum escapes, and names that are not UTF-8.
func TestSumsOfAnyName(t *testing.T) {
	fixtures.NeedRoot(t)
	o := options(t, sample.Set("strange", strange(t)))
	o.Appliance.Spec.Store.Format = format.Dir
	build(t, o)
	verified(t, o.Out)
	got := fixtures.Run(t, "sh", "-c", "cd "+o.Out+" && sha256sum -c --strict SHA256SUMS")
	if !strings.Contains(got, "back") {
		t.Errorf("got no escaped name from sha256sum, want one:\n%s", got)
	}
}

// An interrupted build leaves no files and no mounts.
func TestInterruptedBuildOfADir(t *testing.T) {
	fixtures.NeedRoot(t)
	registry, access := appliance.Registry(t)
	pin, err := registry.PushStack(t.Context(), "stack", 1<<20, 1<<20, 1<<20, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("stack", pin))
	o.Appliance.Spec.Store.Format = format.Dir
	ctx, stop := context.WithCancel(t.Context())
	blobs := 0
	access.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/blobs/") {
			if blobs++; blobs == 4 { // the configuration comes first
				stop()
				<-r.Context().Done() // the build has ended the request
			}
		}
		return false
	})
	if _, err := builder.Build(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want %v", err, context.Canceled)
	}
	if left := entriesOf(t, filepath.Dir(o.Out)); len(left) != 1 { // the sets
		t.Errorf("got the files %v, want only the sets", left)
	}
	if mounts, err := os.ReadFile("/proc/self/mountinfo"); err != nil ||
		strings.Contains(string(mounts), filepath.Dir(o.Out)) {
		t.Errorf("got %v and these mounts, want none of the build:\n%s", err, mounts)
	}
	access.Fault(nil)
	build(t, o)
}

// A build removes the files and mounts of a killed build first.
func TestBuildAfterAKilledBuildOfADir(t *testing.T) {
	fixtures.NeedRoot(t)
	_, pins := fixtures.Samples(t)
	o := options(t, pins.Sets())
	o.Appliance.Spec.Store.Format = format.Dir
	left := filepath.Join(filepath.Dir(o.Out), ".out.pinbox-partial", "store", "overlay")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "--bind", left, left)
	build(t, o)
}
