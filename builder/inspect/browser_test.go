package inspect_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/inspect"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/browser"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// registry is that of a test, whose port is another one each time. The digests of documents depend on it.
var (
	registry = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	sums     = regexp.MustCompile(`<code>[0-9a-f]{64}</code>`)
)

// openFolder opens the page of a folder in a browser, as pinbox inspect writes it.
func openFolder(t *testing.T, dir string) *browser.Page {
	t.Helper()
	return open(t, readPath(t, dir))
}

// open opens the page of a report in a browser.
func open(t *testing.T, report inspect.Report) *browser.Page {
	t.Helper()
	var text bytes.Buffer
	if err := report.HTML(&text, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	html := registry.ReplaceAll(text.Bytes(), []byte("registry.example.com"))
	html = sums.ReplaceAll(html, []byte("<code>"+strings.Repeat("0", 64)+"</code>"))
	file := filepath.Join(t.TempDir(), "page.html")
	if err := os.WriteFile(file, html, 0o644); err != nil {
		t.Fatal(err)
	}
	return browser.Open(t, file)
}

// hostile are names of files that would run a script if the page took them for HTML.
var hostile = []string{
	"<img src=x onerror=document.title='owned'>", "</script><script>document.title='owned'</script>",
	"\"><svg onload=document.title='owned'>", "<!--<script>",
}

// A real browser shows the names of an image as text, runs nothing but the page's own script, and has no error to
// report.
func TestPageInABrowser(t *testing.T) {
	r, _ := appliance.Registry(t)
	var entries []sample.Entry
	for i, name := range hostile {
		entries = append(entries, sample.File(name, noise(byte(i), 100_000)))
	}
	dir := build(t, push(t, r, "a/hostile", entries),
		push(t, r, "a/plain", []sample.Entry{sample.File("usr/bin/program", noise(9, 200_000))}))
	for _, name := range hostile { // beside the store, too
		if err := os.WriteFile(filepath.Join(dir, strings.ReplaceAll(name, "/", "")), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page := openFolder(t, dir)
	for _, width := range []int{400, 1280} {
		page.Load(width, ".cell")
		dom := page.HTML()
		if log := page.Console(); len(log) > 0 {
			t.Errorf("width %d: got on the console\n%s\nwant nothing", width, strings.Join(log, "\n"))
		}
		if strings.Contains(dom, "<title>owned") || strings.Contains(dom, "<img") || strings.Contains(dom, "<svg") {
			t.Errorf("width %d: got the names as HTML\n%s", width, dom)
		}
		var treemap string // the names are in the tables, too
		page.Run("document.getElementById('map').outerHTML", &treemap)
		for _, want := range []string{"&lt;img src=x onerror", `class="cell program"`, "usr/bin"} {
			if !strings.Contains(treemap, want) {
				t.Errorf("width %d: got no %q in the treemap\n%s", width, want, treemap)
			}
		}
		for _, want := range []string{`aria-current="true"`, "Made by pinbox 1.2.3.", "Documents", "not listed"} {
			if !strings.Contains(dom, want) {
				t.Errorf("width %d: got no %q\n%s", width, want, dom)
			}
		}
	}
}

// everyone is the folder of two images, one of which hides a file.
func everyone(t *testing.T) string {
	r, _ := appliance.Registry(t)
	return build(t, push(t, r, "a/one", []sample.Entry{
		sample.File("usr/bin/program", noise(1, 300_000)), sample.File("usr/share/data", noise(2, 200_000)),
	}), push(t, r, "a/two", []sample.Entry{sample.File("opt/other", noise(3, 250_000))},
		[]sample.Entry{sample.File("opt/other", "new")}))
}

// The page can be used with a keyboard alone, and by who uses a screen reader, or needs contrast.
func TestPageForEveryone(t *testing.T) {
	page := openFolder(t, everyone(t))
	page.Load(1280, ".cell")
	t.Run("keyboard", func(t *testing.T) { checkKeyboard(t, page) })
	t.Run("axe", page.CheckAccess)
}

// The page looks as it did, and a layout that breaks is noticed.
func TestGoldenPictures(t *testing.T) {
	page := openFolder(t, everyone(t))
	page.Load(1280, ".cell")
	page.CheckPictures(t, "store")
	whole := page.Picture(1280)
	for what, style := range map[string]string{
		"a treemap without places":  ".cell { position: static !important }",
		"a treemap without colours": ".cell { background: none !important }",
		"a narrow page":             "body { max-width: 900px !important }",
		"no room above headings":    "h2 { margin: 0 !important }",
		"tables without borders":    "th, td { padding: 0 !important; border: 0 !important }",
		"dark letters on dark":      "body { background: #1b2333 !important }",
	} {
		t.Run(what, func(t *testing.T) {
			page.Load(1280, ".cell")
			page.Style(style)
			if err := browser.Compare(whole, page.Picture(1280)); err == nil {
				t.Errorf("%s: got no difference, want one", style)
			}
		})
	}
	page.Load(1280, ".cell")
	if err := browser.Compare(whole, page.Picture(1280)); err != nil {
		t.Errorf("got %v, want no difference after the page was loaded once more", err)
	}
}

func checkKeyboard(t *testing.T, page *browser.Page) {
	t.Helper()
	if got := page.Press("Tab"); !strings.Contains(got, "KiB)") {
		t.Errorf("got the focus on %q after a tab, want the folder that is shown", got)
	}
	first := page.Press("Tab")
	if !strings.HasPrefix(first, "open ") {
		t.Fatalf("got the focus on %q, want a folder of the treemap", first)
	}
	if got := page.Press("Enter"); got == first {
		t.Errorf("got the focus on %q still, want it in that folder", got)
	}
	const folders = "document.querySelectorAll('#crumbs button').length"
	var shown int
	if page.Run(folders, &shown); shown != 2 {
		t.Errorf("got %d folders above, want 2", shown)
	}
	page.Press("Escape")
	if page.Run(folders, &shown); shown != 1 {
		t.Errorf("got %d folders above after Escape, want 1", shown)
	}
}
