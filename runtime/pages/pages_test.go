package pages_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures/browser"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/pages"
	"github.com/pinbox/pinbox/storage/pinset"
)

// now is the time of the pages, and hostile a text that would run a script if a page took it for HTML.
var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const hostile = `</script><script>document.title='owned'</script>"><img src=x onerror=document.title='owned'>`

// node is a node that pulls, with one of everything that a status can have.
func node() runtime.Status {
	digest := strings.Repeat("0123456789abcdef", 4)
	images := []runtime.ImageStatus{
		{Name: "registry.example.com/site/app@sha256:" + digest, State: runtime.Pinned, Sets: []string{"worker"}},
		{Name: "registry.example.com/site/tool@sha256:" + digest, State: runtime.Pulling, Sets: []string{"worker"}, Bytes: 300 << 20},
		{Name: "registry.example.com/site/big@sha256:" + digest, State: runtime.Missing, Sets: []string{"worker", "edge"},
			Bytes: 5 << 30, ErrorClass: "auth", Error: "the registry refuses: " + hostile},
	}
	return runtime.Status{
		Time: now, Node: "node-7" + hostile, Runtime: "cri-o 1.34.0", Pools: []string{"worker"}, Images: images,
		Program: &runtime.ProgramStatus{Running: pinset.Program{Version: "1.2.3"}},
		Conditions: []runtime.Condition{{
			Type: runtime.ProgressingCondition, Status: "True", Reason: "ImagePrefetch", Message: "node is prefetching images",
			LastTransitionTime: now.Add(-95 * time.Minute),
		}, {Type: runtime.DegradedCondition, Status: "False", Reason: "AsExpected", LastTransitionTime: now.Add(-72 * time.Hour)}},
		Sets: []runtime.SetStatus{
			{Name: "worker", Images: 3, Pinned: 1, Missing: 2, DesiredGeneration: "4", CurrentGeneration: "3"},
			{Name: "broken.yaml", DesiredGeneration: digest, LastFailedGeneration: digest, LastFailedGenerationError: "broken.yaml:3: no set"},
		},
		Stores: []runtime.StoreStatus{
			{Slot: "1", Digest: "sha256:" + digest, ReleaseID: pinset.ReleaseID{Name: "edge" + hostile, Number: 7}, Images: 12,
				State: runtime.StoreMounted, Bytes: 900 << 20, Current: true, Verity: &runtime.VerityStatus{State: runtime.Verified}},
			{Slot: "2", Digest: "sha256:" + digest, State: runtime.StoreComposing,
				Progress: &runtime.StoreProgress{Bytes: 30, OfBytes: 100, ETA: now.Add(50 * time.Second)}},
			{Slot: "3", Digest: "sha256:" + digest, State: runtime.StoreUnavailable, Error: "the medium is gone"},
		},
		OwnStore:    &runtime.VerityStatus{State: runtime.Unverified, Reason: "the store has no tree"},
		StoreImages: []runtime.StoreImage{{Names: []string{"registry.example.com/a/b@sha256:" + digest}, Pinned: true}, {}},
		Unpinned:    []string{"registry.example.com/old@sha256:" + digest},
		Progress:    &runtime.Progress{Images: 1, OfImages: 3, Bytes: 1 << 30, OfBytes: 6 << 30, ETA: now.Add(2 * time.Hour)},
		Space:       []runtime.SpaceStatus{{Path: "/var/lib/containers", Bytes: 100 << 30, Free: 20 << 30}},
		Totals:      runtime.Totals{PullFailures: map[runtime.Class]int64{"auth": 12}, LastSuccess: now.Add(-49 * time.Hour)},
		Errors:      []string{"a later drop-in overrides the pins" + hostile},
	}
}

// summary is a fleet with nodes that are not ready for several reasons.
func summary() fleet.Summary {
	return fleet.Summary{
		Time: now, Nodes: 5, Ready: 2, BytesToGo: 5 << 30, ETA: now.Add(3 * time.Hour), ReadyNodes: []string{"node-1", "node-2" + hostile},
		NotReady: []fleet.Reason{
			{Reason: "auth", Nodes: []fleet.NodeText{{Node: "node-3", Text: hostile, BytesToGo: 1 << 30, Since: now.Add(-30 * time.Second)}}},
			{Reason: fleet.NeverReported, Nodes: []fleet.NodeText{{Node: "node-4"}}},
			{Reason: fleet.Pulling, Nodes: []fleet.NodeText{{Node: "node-5", BytesToGo: 4 << 30, Since: now.Add(-time.Hour), ETA: now.Add(3 * time.Hour)}}},
		},
		Sets:     []fleet.SetCount{{Name: "worker" + hostile, Nodes: 5, Ready: 2}, {Name: "edge", Nodes: 2, Ready: 2}},
		Releases: []fleet.StoreCount{{ReleaseID: pinset.ReleaseID{Name: "edge", Number: 7}, Nodes: 4}},
		Programs: []fleet.ProgramName{{Program: "1.2.3", Nodes: 4}},
	}
}

// open writes a page, and opens it in a browser.
func open(t *testing.T, write func(io.Writer) error) *browser.Page {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	if err := write(f); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return browser.Open(t, f.Name())
}

func openNode(t *testing.T) *browser.Page {
	return open(t, func(w io.Writer) error { return pages.Node(w, node(), "pinbox-node 1.2.3") })
}

func openFleet(t *testing.T) *browser.Page {
	return open(t, func(w io.Writer) error { return pages.Fleet(w, summary(), "pinbox 1.2.3") })
}

// The rows of a table, as a reader sees them, say what is there, what is missing, why, and for how long.
func TestWhatPagesSay(t *testing.T) {
	nodePage, fleetPage := openNode(t), openFleet(t)
	for _, page := range []*browser.Page{nodePage, fleetPage} {
		page.Load(1280, "footer")
	}
	for _, test := range []struct {
		page    *browser.Page
		section string
		want    []string
	}{
		{nodePage, "missing", []string{"1 of 3 images are pulled, 1 GiB of 6 GiB; done at about 2026-08-01 14:00:00 UTC, in 2 h 0 min.",
			"registry.example.com/site/tool", "pulling", "300 MiB", "registry.example.com/site/big", "missing", "5 GiB",
			"auth: the registry refuses: </script>", "worker, edge"}},
		{nodePage, "sets", []string{"worker", "1 of 3 images", "4, complete was 3", "broken.yaml:3: no set"}},
		{nodePage, "problems", []string{"broken.yaml:3: no set", "a later drop-in overrides the pins</script>"}},
		{nodePage, "conditions", []string{"2026-08-01 10:25:00 UTC", "1 h 35 min", "3 days"}},
		{nodePage, "stores", []string{"the appliance's own", "unverified", "the store has no tree", "edge</script>", "7", "current", "composing", "done in about 50 s",
			"slot 3", "unavailable", "the medium is gone"}},
		{nodePage, "space", []string{"/var/lib/containers", "80 GiB of 100 GiB", "20 GiB"}},
		{nodePage, "failures", []string{"auth", "12"}},
		{nodePage, "pinned", []string{"registry.example.com/site/app", "sha256:0123456789abcdef"}},
		{nodePage, "others", []string{"in a read-only store, and pinned", "image without a name", "no longer in a set"}},
		{fleetPage, "not-ready", []string{"node-3", "auth", "30 s", "1 GiB", "</script><script>", "node-4", "never reported", "node-5", "pulling", "1 h 0 min",
			"2026-08-01 15:00:00 UTC", "in 3 h 0 min"}},
		{fleetPage, "sets", []string{"worker</script>", "2 of 5 nodes", "edge", "2 of 2 nodes"}},
		{fleetPage, "releases", []string{"edge", "7", "4 of 5 nodes"}},
		{fleetPage, "programs", []string{"1.2.3", "4 of 5 nodes"}},
		{fleetPage, "ready", []string{"node-1", "node-2</script>"}},
	} {
		var text string
		test.page.Run("document.querySelector('[aria-labelledby="+test.section+"-title]').innerText", &text)
		rest := text
		for _, want := range test.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("%s: got\n%s\nwant %q in it, in its place", test.section, text, want)
				continue
			}
			rest = after
		}
	}
	var head string
	nodePage.Run("document.querySelector('header').innerText", &head)
	for _, want := range []string{"node-7</script>", "pulling: 1 of 3 images, 1 GiB of 6 GiB (16 %), done in about 2h0m0s",
		"At 2026-08-01 12:00:00 UTC, cri-o 1.34.0, pinbox-node 1.2.3, pools worker.", "All was well last at 2026-07-30 11:00:00 UTC, 2 days before."} {
		if !strings.Contains(head, want) {
			t.Errorf("got %q, want %q", head, want)
		}
	}
}

// A real browser shows the pages without a word on its console, runs nothing of what they show, and leaves nobody out.
func TestPagesInABrowser(t *testing.T) {
	for name, page := range map[string]*browser.Page{"node": openNode(t), "fleet": openFleet(t)} {
		t.Run(name, func(t *testing.T) {
			page.Load(1280, "footer")
			if log := page.Console(); len(log) > 0 {
				t.Errorf("got on the console\n%s\nwant nothing", strings.Join(log, "\n"))
			}
			var elements int
			page.Run("document.querySelectorAll('img, script, svg').length + (document.title.startsWith('owned') ? 1 : 0)", &elements)
			if elements > 0 {
				t.Errorf("got %d elements of names, want text:\n%s", elements, page.HTML())
			}
			page.CheckAccess(t)
			// Who has only a keyboard reaches each table, to scroll it.
			var tables int
			page.Run("document.querySelectorAll('table').length", &tables)
			for range tables {
				page.Press("Tab")
				var reached bool
				if page.Run("document.activeElement.matches('.wide')", &reached); !reached {
					t.Errorf("got the focus elsewhere, want it on the next of %d tables", tables)
				}
			}
			var last bool
			if page.Run("document.activeElement === [...document.querySelectorAll('.wide')].at(-1)", &last); !last || tables < 4 {
				t.Errorf("got the focus elsewhere, want it on the last of %d tables", tables)
			}
		})
	}
}

// The pages look as they did.
func TestGoldenPictures(t *testing.T) {
	for name, page := range map[string]*browser.Page{"node": openNode(t), "fleet": openFleet(t)} {
		page.Load(1280, "footer")
		page.CheckPictures(t, name)
	}
}

// A node that has all it should have says so, and has no table of what it lacks.
func TestNodeThatIsWell(t *testing.T) {
	s := runtime.Status{
		Time: now, Node: "node-1", Sets: []runtime.SetStatus{{Name: "worker", Images: 1, Pinned: 1}},
		Images:     []runtime.ImageStatus{{Name: "a/b@sha256:00", State: runtime.Pinned, Sets: []string{"worker"}}},
		Conditions: []runtime.Condition{{Type: runtime.DegradedCondition, Status: "False", Reason: "AsExpected"}},
	}
	var text strings.Builder
	if err := pages.Node(&text, s, "pinbox-node 1.2.3"); err != nil {
		t.Fatal(err)
	}
	if got := text.String(); !strings.Contains(got, "all 1 images of 1 sets are pinned") || strings.Contains(got, "missing-title") ||
		strings.Contains(got, "problems-title") || strings.Contains(got, "last at") {
		t.Errorf("got %s\nwant a page of a node that lacks nothing", got)
	}
}
