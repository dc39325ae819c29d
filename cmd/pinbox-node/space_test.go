package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

// smallNode makes a node whose main store is a small file system.
func smallNode(t *testing.T, bytes int64, inodes int) (*crio.Node, *sample.Registry, *fixtures.Access) {
	t.Helper()
	registry, access := appliance.Registry(t)
	n := appliance.Bare(t)
	n.SmallRoot(bytes, inodes)
	n.Start()
	return n, registry, access
}

// plan runs `pinbox-node plan`.
func plan(t *testing.T, n *crio.Node, args ...string) (planned, crio.Result) {
	t.Helper()
	result := n.Do("plan", append(args, "--output", "json")...)
	var p planned
	if err := json.Unmarshal([]byte(result.Out), &p); err != nil {
		t.Fatalf("plan: got %v, want JSON\n%s%s", err, result.Out, result.Err)
	}
	return p, result
}

// writeLock writes the lock of these images next to the sets of the node, so that it knows exact sizes.
func writeLock(t *testing.T, n *crio.Node, pins ...string) {
	t.Helper()
	o := appliance.Options(t, sample.SetNamed("locked", pins...))
	appliance.Build(t, o)
	content, err := os.ReadFile(filepath.Join(o.Out, layout.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	n.WriteSet("site.lock.json", content)
}

// One byte decides; the sizes are from the lock.
func TestSpaceTooLittleAndJustEnough(t *testing.T) {
	t.Parallel()
	n, registry, access := smallNode(t, 64<<20, 2000)
	pin := push(t, registry, "app/a", 5_000_000, 1_000_000)
	writeLock(t, n, pin)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	access.Take()
	n.Run("sync", "-f", n.Path("root")) // ext4 keeps more than it needs for what CRI-O wrote when it started
	p, _ := plan(t, n)
	if len(p.Pulls) != 1 || p.Pulls[0].Estimated || p.Pulls[0].Unpacked < 6_000_000 || p.Pulls[0].Unpacked > 6_010_000 ||
		p.Pulls[0].Inodes < 4 {
		t.Fatalf("got the plan %+v, want one pull of 6 MB with exact sizes", p)
	}
	if requests := access.Take(); len(requests) > 0 {
		t.Errorf("got the requests %v, want none with a lock", requests)
	}
	store := p.Space[0]
	if len(p.Space) != 2 || store.Path != n.Path("root") || store.Bytes != p.Pulls[0].Unpacked ||
		p.Space[1].Path != n.Path("staging") {
		t.Errorf("got the space %+v, want that of the pull in root, and staging", p.Space)
	}
	tooMuch := fmt.Sprint(store.Free - store.Bytes + 1)
	want := fmt.Sprintf("Pulling the images on node12 needs 5.7 MiB in %s; %s are free, %s are kept in reserve.",
		n.Path("root"), bytesize.Format(store.Free), bytesize.Format(store.Free-store.Bytes+1))
	if _, result := plan(t, n, "--set=reserve="+tooMuch); result.Code != 5 || !strings.Contains(result.Err, want) {
		t.Errorf("plan: got exit code %d and %s, want 5 and %s", result.Code, result.Err, want)
	}
	before := fixtures.Tree(t, n.Etc(""))
	s := degraded(t, n, "s", want, "--set=reserve="+tooMuch)
	if s.Images[0].ErrorClass != runtime.Space || s.Images[0].State != runtime.Missing {
		t.Errorf("got %+v, want the image missing for lack of space", s.Images[0])
	}
	if len(access.Take()) > 0 || len(fixtures.Tree(t, n.Etc(""))) != len(before) {
		t.Error("got requests or files written, want none")
	}
	healthy(t, n, "--set=reserve="+fmt.Sprint(store.Free-store.Bytes))
	wantPinned(t, n, pin)
}

// At its threshold, the kubelet starts to remove images.
func TestSpaceStaysBelowTheKubeletsThreshold(t *testing.T) {
	t.Parallel()
	n, registry, _ := smallNode(t, 64<<20, 2000)
	pin := push(t, registry, "app/a", 6_000_000)
	writeLock(t, n, pin)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	degraded(t, n, "s", "the kubelet removes images once 5 % are used", "--set=gcThreshold=5")
	healthy(t, n, "--set=gcThreshold=50")
}

// The disk fills up while the first of two images is pulled: that pull completes or fails, and the
// second pull is not started.
func TestSpaceFilledBySomebodyElseDuringAPull(t *testing.T) {
	t.Parallel()
	for name, left := range map[string]int64{"the second does not fit": 4 << 20, "nothing fits": 100_000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, access := smallNode(t, 64<<20, 2000)
			first, second := push(t, registry, "app/first", 1_000_000), push(t, registry, "app/second", 20_000_000)
			writeLock(t, n, first, second)
			n.WriteSet("s.yaml", sample.SetNamed("s", first, second))
			access.Take()
			var once sync.Once
			access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
				if strings.Contains(r.URL.Path, "/blobs/") {
					once.Do(func() { n.Fill(left) })
				}
				return false
			})
			s := degraded(t, n, "s", "Pulling the images on node12 ", "--set=parallel=1")
			for _, r := range access.Take() {
				if strings.Contains(r.Path, "app/second") {
					t.Errorf("got the request %v, want none for the second image", r)
				}
			}
			got := states(s)
			if (got[first] == runtime.Pinned) != (left > 1<<20) || got[second] != runtime.Missing {
				t.Errorf("got %v, want %s missing", got, second)
			}
			for _, img := range s.Images {
				if img.State == runtime.Missing && img.ErrorClass != runtime.Space {
					t.Errorf("got %+v, want the class space", img)
				}
			}
			n.Unfill()
			healthy(t, n)
			wantPinned(t, n, first, second)
		})
	}
}

// pushFiles pushes an image of so many small files.
func pushFiles(t *testing.T, registry *sample.Registry, files int) string {
	t.Helper()
	entries := []sample.Entry{sample.Dir("d")}
	for i := range files {
		entries = append(entries, sample.File(fmt.Sprintf("d/%d", i), "x"))
	}
	stream, err := sample.Tar(entries...)
	if err != nil {
		t.Fatal(err)
	}
	layer, err := sample.NewLayer(stream, types.OCILayer)
	if err != nil {
		t.Fatal(err)
	}
	img, err := sample.Image("amd64", false, []v1.Layer{layer}...)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.Push(t.Context(), "app/files", img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

func TestSpaceOutOfInodes(t *testing.T) {
	t.Parallel()
	n, registry, _ := smallNode(t, 64<<20, 1000)
	pin := pushFiles(t, registry, 1200)
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	// Without a lock, the number of files is not known before the pull.
	s := degraded(t, n, "s", "no space left on device")
	if s.Images[0].ErrorClass != runtime.Space {
		t.Errorf("got %+v, want the class space", s.Images[0])
	}
	writeLock(t, n, pin)
	p, _ := plan(t, n)
	if p.Pulls[0].Inodes != 1202 { // the files, their folder, the root
		t.Errorf("got the plan %+v, want 1202 inodes", p)
	}
	degraded(t, n, "s", fmt.Sprintf("needs 1202 inodes in %s; %d are free", n.Path("root"), p.Space[0].FreeInodes))
}

// An index counts as its image for this platform. Layers that are on the node do not count.
func TestPlanCountsOnlyMissingLayers(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	base := push(t, registry, "app/base", 1_000_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", base))
	healthy(t, n)
	over, err := sample.Stack(1_000_000, 10_000)
	if err != nil {
		t.Fatal(err)
	}
	index, err := sample.Index(over)
	if err != nil {
		t.Fatal(err)
	}
	pin, err := registry.PushIndex(t.Context(), "app/index", index)
	if err != nil {
		t.Fatal(err)
	}
	twin := push(t, registry, "app/twin", 1_000_000, 10_000)
	n.WriteSet("s.yaml", sample.SetNamed("s", base, pin, twin))
	before := fixtures.Tree(t, n.Root)
	p, result := plan(t, n)
	if result.Code != 0 || len(p.Pulls) != 2 || !p.Rewrite {
		t.Fatalf("got the plan %+v and %+v, want 2 pulls and exit code 0", p, result)
	}
	// 10,000 bytes of text take about 5,500 compressed; the base's 550,000 do not count.
	for i, pull := range p.Pulls {
		if first := i == 0; !pull.Estimated && first || (pull.Fetch > 4_000 && pull.Fetch < 8_000) != first ||
			(pull.Unpacked == 2*pull.Fetch) != true {
			t.Errorf("pull %d: got %+v, want an estimate, with 4 to 8 kB to fetch only for the first", i, pull)
		}
	}
	after := fixtures.Tree(t, n.Root)
	for name, entry := range after {
		if before[name] != entry {
			t.Errorf("got %s changed, want no change", name)
		}
	}
	healthy(t, n)
}
