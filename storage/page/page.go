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

// Page is what a page shows. All of it is text, but for Style, Scripts and the HTML of sections.
type Page struct {
	// Title names what the page is about, such as a node, and About says in the title of the window what of it.
	Title, About string
	// Summary is a line, and Notes are those below it.
	Summary string
	Notes   []string
	// Program that has made the page, with its version.
	Program  string
	Sections []Section
	// Style is added to that of the frame.
	Style template.CSS
	// Scripts run at the end, and no others. Data is what they find as JSON in the element "data", for json.Marshal.
	Scripts []template.JS
	Data    any
}

// Section is a part of a page. One without rows, lines and HTML is left out.
type Section struct {
	// ID is unique in the page, and Title the heading.
	ID, Title string
	// Text stands above the rest, and Note below.
	Text, Note string
	Lines      []string
	Columns    []Column
	Rows       [][]Cell
	// HTML is what the caller draws, with its own template.
	HTML template.HTML
}

// Column is one of a table: of Text, or of a Number, which stands at the right.
type Column struct {
	Title    string
	IsNumber bool
}

// Text is a column of texts.
func Text(title string) Column { return Column{Title: title} }

// Number is a column of numbers.
func Number(title string) Column { return Column{Title: title, IsNumber: true} }

// Cell is one of a table. The first of a row names the row.
type Cell struct {
	Text string
	// Code is a line below, such as a digest, and More are further ones.
	Code string
	More []string
	// State gives the text a colour.
	State State
	// Of is the whole of which Part is drawn as a bar; 0 for no bar.
	Part, Of int64
}

// State of a thing: the zero value is none.
type State string

// What is Good needs nothing; of what is Busy nobody has to take care; what is Bad needs somebody.
const (
	Good State = "good"
	Busy State = "busy"
	Bad  State = "bad"
)

// Shown reports whether the section has something to show.
func (s Section) Shown() bool { return len(s.Rows)+len(s.Lines)+len(s.HTML) > 0 }

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

// IsNumber reports whether a column of the table has numbers.
func (s Section) IsNumber(column int) bool {
	return column < len(s.Columns) && s.Columns[column].IsNumber
}

// Write writes the page.
func (p Page) Write(w io.Writer) error {
	t, err := template.New("frame").Parse(frame)
	if err != nil {
		return err
	}
	return t.Execute(w, p)
}
