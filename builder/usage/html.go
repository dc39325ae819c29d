package usage

import (
	"bytes"
	"cmp"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// The parts of the page that are its own. d3-hierarchy 3.1.3, which lays out the treemap, is that of the npm registry:
// `make page`.
var (
	//go:embed page/map.html
	treemap string
	//go:embed page/bases.html
	basesText string
	//go:embed page/page.css
	style string
	//go:embed page/page.js
	script string
	//go:embed page/d3-hierarchy.min.js
	library string
)

// baseRow is a layer in the tree of layers, or an image that has no more layers.
type baseRow struct {
	Label   string
	Open    bool
	Members []*baseRow
}

// HTML writes the report as one page that needs no other file and no network. version is that of pinbox, and more are
// sections that come after the images.
func (r Report) HTML(w io.Writer, version string, more ...page.Section) error {
	var bases bytes.Buffer
	t, err := template.New("bases").Parse(basesText)
	if err == nil {
		err = t.Execute(&bases, r.bases())
	}
	if err != nil {
		return err
	}
	p := page.Page{
		Title: cmp.Or(r.Name, "store"), About: "what fills the store", Summary: r.summary(), Program: "pinbox " + version,
		Style: template.CSS(style),
	}
	if r.tree.Stored > 0 {
		p.Scripts, p.Data = []template.JS{template.JS(library), template.JS(script)}, r.tree
		p.Sections = append(p.Sections, page.Section{
			ID: "map", Title: "What fills the store", HTML: template.HTML(treemap),
			Note: "Enter or a click opens a field, Escape goes up.",
		})
	}
	hidden := files("hidden", "Files that no container sees", r.Hidden)
	hidden.Text = "A layer above has another file at the same path, or removes it. All of them take " +
		bytesize.Format(r.HiddenStored) + "."
	p.Sections = append(append(append(p.Sections, r.against(), r.images()), more...), page.Section{
		ID: "bases", Title: "Which images share which layers", HTML: template.HTML(bases.String()),
	}, files("largest", "Largest files", r.Largest), hidden)
	return p.Write(w)
}

// images is the table of the images.
func (r Report) images() page.Section {
	s := page.Section{
		ID: "images", Title: "Images",
		Columns: []page.Column{
			page.Text("image"), page.Number("layers"), page.Number("in a registry"), page.Number("in the store"),
			page.Number("saved without it"),
		},
		Note: "Equal contents stand in the store once, and count for the first layer that has them.",
	}
	for _, img := range r.Images {
		name := pinCell(img.Pin)
		name.More = img.Tags
		s.Rows = append(s.Rows, []page.Cell{
			name, {Text: strconv.Itoa(len(img.Layers))},
			{Text: bytesize.Format(img.Blobs)}, {Text: bytesize.Format(img.Stored)}, {Text: bytesize.Format(img.Saving)},
		})
	}
	return s
}

func (r Report) summary() string {
	release := ""
	if r.Number > 0 {
		release = fmt.Sprintf("release %d, ", r.Number)
	}
	text := fmt.Sprintf("%s%s: %d images of %d layers", release, r.Platform, len(r.Images), len(r.Layers))
	if r.Size > 0 {
		text += fmt.Sprintf(" in a store of %s", bytesize.Format(r.Size))
	}
	return text
}

// openBases is how many images must share a layer for its part of the tree to be open at first.
const openBases = 2

// bases returns the tree of layers, with the images that end at each.
func (r Report) bases() (top []*baseRow) {
	rows := make([]*baseRow, len(r.Layers))
	for i, l := range r.Layers {
		shown := bytesize.Format(l.Stored)
		if l.Elsewhere {
			shown = "not in this store"
		}
		rows[i] = &baseRow{
			Label: fmt.Sprintf("layer %.12s, %s, of %d images", l.DiffID.Encoded(), shown, l.Images),
			Open:  l.Images >= openBases,
		}
		if l.Parent < 0 {
			top = append(top, rows[i])
		} else {
			rows[l.Parent].Members = append(rows[l.Parent].Members, rows[i])
		}
	}
	for _, img := range r.Images {
		if n := len(img.Layers); n > 0 {
			name, _, _ := strings.Cut(img.Pin, "@")
			last := rows[img.Layers[n-1]]
			last.Members = append(last.Members, &baseRow{Label: name})
		}
	}
	return top
}

// files is a table of files.
func files(id, title string, all []File) page.Section {
	s := page.Section{
		ID: id, Title: title,
		Columns: []page.Column{page.Text("file"), page.Text("image"), page.Number("size"), page.Number("in the store")},
	}
	for _, f := range all {
		name, _, _ := strings.Cut(f.Image, "@")
		s.Rows = append(s.Rows, []page.Cell{
			{Text: f.Path}, {Text: name}, {Text: bytesize.Format(f.Size)}, {Text: bytesize.Format(f.Stored)},
		})
	}
	return s
}
