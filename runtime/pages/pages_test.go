package pages_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/browser"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/pages"
	"github.com/pinbox/pinbox/storage/pinset"
)

// now is the time of the page, and hostile a text that would run a script if a page took it for HTML.
var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

const hostile = `</script><script>document.title='owned'</script>"><img src=x onerror=document.title='owned'>`

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
		Wanted:   []fleet.WantedCount{{Name: "quay.io/site/db:1.9" + hostile, Nodes: 3}},
	}
}

// openFleet writes the page of a fleet, and opens it in a browser.
func openFleet(t *testing.T, s fleet.Summary) *browser.Page {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	if err := pages.Fleet(f, s, "pinbox 1.2.3"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return browser.Open(t, f.Name())
}

// The page has the same bytes as before, and leaves out the tables that have no row.
func TestPageGolden(t *testing.T) {
	var whole, empty bytes.Buffer
	err := errors.Join(pages.Fleet(&whole, summary(), "pinbox 1.2.3"),
		pages.Fleet(&empty, fleet.Summary{Time: now}, "pinbox 1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "fleet.html", whole.Bytes())
	fixtures.Golden(t, "fleet-empty.html", empty.Bytes())
}

// The rows of a table, as a reader sees them, say what is there, what is missing, why, and for how long.
func TestWhatPagesSay(t *testing.T) {
	fleetPage := openFleet(t, summary())
	fleetPage.Load(1280, "footer")
	for _, test := range []struct {
		section string
		want    []string
	}{
		{"not-ready", []string{"node-3", "auth", "30 s", "1 GiB", "</script><script>", "node-4", "never reported", "node-5", "pulling", "1 h 0 min",
			"2026-08-01 15:00:00 UTC", "in 3 h 0 min"}},
		{"wanted", []string{"quay.io/site/db:1.9</script>", "3 of 5 nodes"}},
		{"sets", []string{"worker</script>", "2 of 5 nodes", "edge", "2 of 2 nodes"}},
		{"releases", []string{"edge", "7", "4 of 5 nodes"}},
		{"programs", []string{"1.2.3", "4 of 5 nodes"}},
		{"ready", []string{"node-1", "node-2</script>"}},
	} {
		var text string
		fleetPage.Run("document.querySelector('[aria-labelledby="+test.section+"-title]').innerText", &text)
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
}

// A real browser shows the page without a word on its console, runs nothing of what it shows, and leaves nobody out.
func TestPagesInABrowser(t *testing.T) {
	page := openFleet(t, summary())
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
	var tables, links int
	page.Run("document.querySelectorAll('table').length", &tables)
	page.Run("document.querySelectorAll('a').length", &links) // of the map, which is before them
	for range links {
		page.Press("Tab")
	}
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
}

// A thousand nodes are on the first screen of a laptop, each with a sign of its state and a link to its row; on a
// telephone nothing is cut.
func TestMapOfManyNodes(t *testing.T) {
	s := fleet.Summary{Time: now, Nodes: 1000, Ready: 960, BytesToGo: 1 << 30, ETA: now.Add(time.Hour)}
	for _, reason := range []string{"auth", fleet.Silent, "space", fleet.Pulling} {
		r := fleet.Reason{Reason: reason}
		for n := range 10 {
			r.Nodes = append(r.Nodes, fleet.NodeText{Node: fmt.Sprintf("%s-%d", reason, n)})
		}
		s.NotReady = append(s.NotReady, r)
	}
	for n := range s.Ready {
		s.ReadyNodes = append(s.ReadyNodes, fmt.Sprintf("node-%d", n))
	}
	page := openFleet(t, s)
	for _, screen := range []struct{ width, bottom int }{{400, 1 << 20}, {1280, 800}} {
		page.Load(screen.width, "footer")
		var got struct {
			Tiles, Outside, Small, Lost, Cut int
			Legend, Signs                    string
		}
		page.Run(fmt.Sprintf(`(() => {
			const tiles = [...document.querySelectorAll(".tiles .tile")], root = document.documentElement;
			const count = test => tiles.filter(test).length;
			return {
				Tiles: tiles.length,
				Outside: count(t => (b => b.left < 0 || b.right > %d || b.bottom > %d)(t.getBoundingClientRect())),
				Small: count(t => (b => b.width < 22 || b.height < 22)(t.getBoundingClientRect())),
				Lost: count(t => !(document.querySelector(t.hash) ?.innerText ?? "").startsWith(t.title.split(":")[0])),
				Cut: root.scrollWidth - root.clientWidth,
				Legend: document.querySelector(".legend").innerText.replaceAll(/\s+/g, " "),
				Signs: [...new Set(tiles.map(t => t.innerText + " " + t.title.split(": ")[1]))].join(" "),
			};
		})()`, screen.width, screen.bottom), &got)
		if got.Tiles != s.Nodes || got.Outside+got.Small+got.Lost+got.Cut > 0 {
			t.Errorf("%d columns: got %+v, want %d tiles, and none outside, small or without its row", screen.width, got, s.Nodes)
		}
		if want := "A auth: 10 S silent: 10 P space: 10 U pulling: 10 · ready: 960"; got.Legend != want {
			t.Errorf("got the legend %q, want %q", got.Legend, want)
		}
		if want := "A auth S silent P space U pulling · ready"; got.Signs != want {
			t.Errorf("got the signs %q, want %q", got.Signs, want)
		}
		var ms float64
		page.Run("performance.getEntriesByType('navigation')[0].loadEventEnd", &ms)
		t.Logf("%d columns: opened in %.0f ms", screen.width, ms)
	}
	page.CheckPictures(t, "fleet-many")
}

// The page looks as it did.
func TestGoldenPictures(t *testing.T) {
	page := openFleet(t, summary())
	page.Load(1280, "footer")
	page.CheckPictures(t, "fleet")
}
