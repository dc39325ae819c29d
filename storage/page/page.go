package page

import (
	"crypto/sha256"
	_ "embed" // the frame
	"encoding/base64"
	"html/template"
	"io"
)

var (
	//go:embed frame.html
	frame string
	//go:embed frame.css
	style string
)

// Page is what a page shows. All of it is text, but for Body, Style and Scripts.
type Page struct {
	// Title names what the page is about, such as a node, and About says in the title of the window what of it.
	Title, About string
	// Summary is a line, and Notes are those below it.
	Summary string
	Notes   []string
	// Program that has made the page, with its version.
	Program string
	// Body is a template with the name "body" for html/template: sections, of the parts in frame.html. Funcs are the
	// functions that it calls beside list, which makes the argument of a part, and Of is what it shows.
	Body  string
	Funcs template.FuncMap
	Of    any
	// Style is added to that of the frame.
	Style template.CSS
	// Scripts run at the end, and no others. Data is what they find as JSON in the element "data", for json.Marshal.
	Scripts []template.JS
	Data    any
}

// Frame is the style of all pages.
func (Page) Frame() template.CSS { return template.CSS(style) }

// Sources name the scripts in a Content-Security-Policy.
func (p Page) Sources() string {
	if len(p.Scripts) == 0 {
		return "'none'"
	}
	sources := ""
	for _, script := range p.Scripts {
		sum := sha256.Sum256([]byte(script))
		sources += " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return sources[1:]
}

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	list := func(all ...any) []any { return all }
	t, err := template.New("frame").Funcs(template.FuncMap{"list": list}).Funcs(p.Funcs).Parse(frame)
	if err == nil {
		_, err = t.Parse(p.Body)
	}
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
