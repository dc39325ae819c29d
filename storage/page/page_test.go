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
		Body: `{{define "body"}}{{template "section" list "lines" .}}{{template "lines" list . .}}</section>
			{{template "section" list "table" .}}{{template "wide" "table"}}<tbody>
			<tr><td class="number">{{template "state" list "bad" .}}</td>
			<td><progress value="{{count}}" max="5" aria-label="{{.}}"></progress></td></tr>
			</tbody></table></div></section>{{end}}`,
		Of: hostile, Funcs: template.FuncMap{"count": func() int { return 4 }},
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
		})
	}
}
