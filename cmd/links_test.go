package cmd_test

import (
	"html"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	pageLink  = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading   = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeBlock = regexp.MustCompile("(?ms)^```.*?^```")
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	dotLabel  = regexp.MustCompile(`label="([^"]+)"`)
)

// repository is where pages of docs find other files of the project.
const repository = "https://github.com/pinbox/pinbox/blob/main/"

// anchors are those that GitHub gives to the headings of a page.
func anchors(text string) (all []string) {
	for _, m := range heading.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}

// Links between pages lead to a file, and to a heading of it.
func TestLinksOfTheDocs(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, name := range append(pages, "../README.md", "../CONTRIBUTING.md") {
		name := strings.TrimPrefix(name, "../")
		for _, m := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(page(t, name), ""), -1) {
			link, ours := strings.CutPrefix(m[1], repository) // the book cannot link to files outside of docs
			if strings.Contains(link, "://") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(link, "#")
			target := name
			switch {
			case ours:
				target = file
			case file != "":
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat("../" + target); err != nil {
				t.Errorf("%s links to %s: got %v, want a file", name, m[1], err)
			} else if anchor != "" && !slices.Contains(anchors(page(t, target)), anchor) {
				t.Errorf("%s links to %s: got no such heading in %s, want one", name, m[1], target)
			}
		}
	}
	if links < 50 {
		t.Errorf("got %d links between pages, want at least 50", links)
	}
}

// A picture has the words of the text that it is drawn of.
func TestPicturesOfTheDocs(t *testing.T) {
	texts, err := filepath.Glob("../docs/pictures/*.dot")
	if err != nil || len(texts) == 0 {
		t.Fatalf("got %v, %v, want pictures", texts, err)
	}
	for _, name := range texts {
		name := strings.TrimSuffix(strings.TrimPrefix(name, "../"), ".dot")
		picture := html.UnescapeString(page(t, name+".svg"))
		for _, label := range dotLabel.FindAllStringSubmatch(page(t, name+".dot"), -1) {
			for _, line := range strings.Split(label[1], `\n`) {
				if !strings.Contains(picture, ">"+line+"<") {
					t.Errorf("%s.svg: got no text %q, want it; `make pictures` draws it anew", name, line)
				}
			}
		}
	}
}
