package page_test

import (
	"html/template"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/page"
)

// What a page shows is text, whoever has made it; only its own scripts may run.
func TestPage(t *testing.T) {
	const hostile = `</title></script><script>alert(1)</script>`
	p := page.Page{
		Title: hostile, About: "about", Summary: hostile, Notes: []string{hostile}, Program: "pinbox 1.2.3",
		Sections: []page.Section{
			{ID: "empty", Title: "Left out", Columns: []page.Column{page.Text("a")}, Text: "text", Note: "note"},
			{ID: "lines", Title: hostile, Lines: []string{hostile}, Text: hostile, Note: hostile},
			{ID: "table", Title: "Table", Columns: []page.Column{page.Text(hostile), page.Number("b")}, Rows: [][]page.Cell{
				{{Text: hostile, Code: hostile, More: []string{hostile}, State: page.Bad}, {Text: "4 of 5 " + hostile, Part: 4, Of: 5}},
			}},
		},
		Data: map[string]string{"name": hostile},
	}
	for name, test := range map[string]struct {
		scripts []template.JS
		policy  string
		count   int
	}{
		"no script": {nil, `script-src &#39;none&#39;`, 0},
		"a script":  {[]template.JS{"f()"}, `script-src &#39;sha256-GcEEE0IkDzIP5EQ6DXZaDPORqT5RTBELX8Fyzyg9yvo=&#39;`, 2},
	} {
		t.Run(name, func(t *testing.T) {
			p.Scripts = test.scripts
			var out strings.Builder
			if err := p.Write(&out); err != nil {
				t.Fatal(err)
			}
			got := out.String()
			if n := strings.Count(got, "<script"); n != test.count || strings.Contains(got, "alert(1)</script>") {
				t.Errorf("got %d scripts, want %d, and no name as one:\n%s", n, test.count, got)
			}
			for _, want := range []string{test.policy, `<progress value="4" max="5"`, `class="state bad"`, `<td class="number">`, "Made by pinbox 1.2.3."} {
				if !strings.Contains(got, want) {
					t.Errorf("got\n%s\nwant %s", got, want)
				}
			}
			if strings.Contains(got, "Left out") {
				t.Errorf("got a section that has nothing to show\n%s", got)
			}
		})
	}
}
