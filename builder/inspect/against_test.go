package inspect_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// A report that is compared with an older one says which images are changed, added and removed, and their bytes: as
// JSON, and on its page. Of the older one a lock is enough.
func TestSinceAnOlderStore(t *testing.T) {
	r, _ := appliance.Registry(t)
	base := []sample.Entry{sample.File("base", noise(1, 400_000))}
	stays := push(t, r, "a/stays", base)
	was := push(t, r, "a/changes", base, []sample.Entry{sample.File("own", noise(2, 100_000))})
	gone := push(t, r, "a/gone", []sample.Entry{sample.File("gone", noise(3, 200_000))})
	o := appliance.Options(t, sample.SetNamed("s", stays, was, gone))
	appliance.Build(t, o)
	is := push(t, r, "a/changes", base, []sample.Entry{sample.File("own", noise(4, 300_000))})
	comes := push(t, r, "a/comes", []sample.Entry{sample.File("comes", noise(5, 50_000))})
	now := read(t, stays, is, comes)

	for name, path := range map[string]string{"folder": o.Out, "lock": filepath.Join(o.Out, "pinbox.lock.json")} {
		t.Run(name, func(t *testing.T) {
			old := readPath(t, path)
			text, err := json.Marshal(now.Since(old))
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Against struct {
					Size           int64
					Changed        []struct{ Old, New string }
					Added, Removed []string
					LayersAdded    struct{ Count, Bytes int64 }
					Bytes          map[string]int64
				}
			}
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatal(err)
			}
			a := got.Against
			if len(a.Changed) != 1 || a.Changed[0].Old != was || a.Changed[0].New != is ||
				strings.Join(a.Added, " ") != comes || strings.Join(a.Removed, " ") != gone {
				t.Errorf("got %s, want %s → %s, +%s, -%s", text, was, is, comes, gone)
			}
			for pin, want := range map[string]int64{was: 500_000, is: 700_000, comes: 50_000, gone: 200_000} {
				if size := a.Bytes[pin]; size < want || size > want+4000 {
					t.Errorf("%s: got %d bytes, want about %d", pin, size, want)
				}
			}
			if _, listed := a.Bytes[stays]; listed || a.LayersAdded.Count != 2 || (a.Size > 0) != (name == "folder") {
				t.Errorf("got %s, want 2 new layers, and nothing of the image that stays", text)
			}
			if now.Against != nil {
				t.Error("got a comparison in the report itself, want it only in that of Since")
			}
			checkComparison(t, now.Since(old))
		})
	}
}

// The page of a lock that is compared with another one has the same bytes as before.
func TestPageGolden(t *testing.T) {
	report := readPath(t, filepath.Join("..", "..", "fixtures", "golden", "pinbox.lock.json"))
	var text bytes.Buffer
	if err := report.Since(report).HTML(&text, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "inspect-lock.html", text.Bytes())
}

// checkComparison reads the rows of the page of TestSinceAnOlderStore.
func checkComparison(t *testing.T, report inspect.Report) {
	t.Helper()
	page := open(t, report)
	page.Load(1280, ".cell")
	var rows []string
	page.Run("[...document.querySelectorAll('[aria-labelledby=against-title] tbody tr')].map(r => "+
		"[...r.cells].map(c => c.innerText.replace(/\\s*(sha256:[0-9a-f]{64}|→)/g, '')).join('|'))", &rows)
	a := report.Against
	size := func(pin string) string { return bytesize.Format(a.Bytes[pin]) }
	want := fmt.Sprintf("registry.example.com/a/changes|changed|%s|%s|%s, 1 of 2\nregistry.example.com/a/comes|added||%s|\n"+
		"registry.example.com/a/gone|removed|%s||", size(a.Changed[0].Old), size(a.Changed[0].New),
		bytesize.Format(a.Changed[0].NewLayers.Bytes), size(a.Added[0]), size(a.Removed[0]))
	if got := strings.Join(rows, "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if log := page.Console(); len(log) > 0 {
		t.Errorf("got on the console\n%s\nwant nothing", strings.Join(log, "\n"))
	}
	page.CheckAccess(t)
}

// A store that is as it was says so.
func TestSinceTheSameStore(t *testing.T) {
	r, _ := appliance.Registry(t)
	report := read(t, push(t, r, "a/b", []sample.Entry{sample.File("a", noise(1, 1000))}))
	var text strings.Builder
	if err := report.Since(report).HTML(&text, "1.2.3"); err != nil || !strings.Contains(text.String(), "No image is another one.") {
		t.Errorf("got %v and\n%s\nwant that nothing has changed", err, text.String())
	}
}
