package cmd_test

import (
	"html"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

var (
	pageID = regexp.MustCompile(`\sid="([^"]+)"`)
	// swallowed is an item of a list that the generator takes for text: a paragraph in a list takes 4 spaces, and the
	// item after it an empty line before.
	swallowed = regexp.MustCompile(`(?m)^(?:[0-9]+\.|[-*]) .*`)
	pageCode  = regexp.MustCompile(`(?s)<pre>.*?</pre>`)
	pageHref  = regexp.MustCompile(`<(a|link|script|img)\s[^>]*?\b(?:href|src)="([^"]*)"`)
)

// The book has all pages of docs, and its links lead to a page, and to a place in it. It fetches nothing.
func TestBook(t *testing.T) {
	site := t.TempDir()
	cmd := exec.Command(fixtures.Need(t, "mkdocs"), "build", "--strict", "--quiet", "--site-dir", site)
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pages, ids := map[string]string{}, map[string]bool{}
	sources, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		name := strings.TrimSuffix(filepath.Base(source), ".md") + ".html"
		content, err := os.ReadFile(filepath.Join(site, name))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(page(t, "mkdocs.yml"), ": "+filepath.Base(source)+"\n") {
			t.Errorf("%s: got no place in mkdocs.yml, want one", filepath.Base(source))
		}
		pages[name] = string(content)
		for _, item := range swallowed.FindAllString(pageCode.ReplaceAllString(pages[name], ""), -1) {
			t.Errorf("%s: got an item of a list as text, want an item: %s", name, item)
		}
		for _, m := range pageID.FindAllStringSubmatch(pages[name], -1) {
			ids[name+"#"+m[1]] = true
		}
	}
	links := 0
	for name, content := range pages {
		for _, m := range pageHref.FindAllStringSubmatch(content, -1) {
			link, err := url.Parse(html.UnescapeString(m[2]))
			if err != nil || link.Host != "" && m[1] != "a" {
				t.Errorf("%s: got %s of %s, %v, want nothing of other sites", name, m[1], m[2], err)
				continue
			}
			if link.Host != "" {
				continue
			}
			links++
			target := name
			if link.Path != "" {
				target = path.Clean(link.Path)
			}
			if _, err := os.Stat(filepath.Join(site, target)); err != nil {
				t.Errorf("%s: got a link to %s, want one to a file of the book", name, m[2])
			} else if link.Fragment != "" && pages[target] != "" && !ids[target+"#"+link.Fragment] {
				t.Errorf("%s: got a link to %s, want one to a place in that page", name, m[2])
			}
		}
	}
	if links < 500 {
		t.Errorf("got %d links, want 500 at least", links)
	}
}
