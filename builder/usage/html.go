package usage

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the page and its parts
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// The parts of the page. d3-hierarchy 3.1.3, which lays out the treemap, is that of the npm registry: `make page`.
var (
	//go:embed page/page.html
	pageText string
	//go:embed page/page.css
	style string
	//go:embed page/page.js
	script string
	//go:embed page/d3-hierarchy.min.js
	library string
)

// page is what the template shows. All of it is text that anybody may have made, but for the parts above.
type page struct {
	Title, Summary, Version string
	Style                   template.CSS
	ScriptSources           string
	Library, Script, Tree   template.JS
	HasTree                 bool
	Images                  []imageRow
	Bases                   []*baseRow
	Largest, Hidden         []fileRow
	HiddenStored            string
}

type imageRow struct {
	Name, Digest          string
	Tags                  []string
	Layers                int
	Blobs, Stored, Saving string
}

type fileRow struct{ Path, Image, Size, Stored string }

// baseRow is a layer in the tree of layers, or an image that has no more layers.
type baseRow struct {
	Label   string
	Open    bool
	Members []*baseRow
}

// HTML writes the report as one page that needs no other file and no network. version is that of pinbox.
func (r Report) HTML(w io.Writer, version string) error {
	t, err := template.New("page").Parse(pageText)
	if err != nil {
		return err
	}
	tree, err := json.Marshal(r.tree) // which escapes what would end a script
	if err != nil {
		return err
	}
	p := page{
		Title: cmp.Or(r.Name, "store"), Version: version, Summary: r.summary(),
		Style: template.CSS(style), Library: template.JS(library), Script: template.JS(script), Tree: template.JS(tree),
		ScriptSources: source(library) + " " + source(script),
		HasTree:       r.tree.Stored > 0,
		Bases:         r.bases(), Largest: fileRows(r.Largest), Hidden: fileRows(r.Hidden),
		HiddenStored: bytesize.Format(r.HiddenStored),
	}
	for _, img := range r.Images {
		name, digest, _ := strings.Cut(img.Pin, "@")
		p.Images = append(p.Images, imageRow{
			name, digest, img.Tags, len(img.Layers), bytesize.Format(img.Blobs), bytesize.Format(img.Stored),
			bytesize.Format(img.Saving),
		})
	}
	return t.Execute(w, p)
}

// source is the name of a script in a Content-Security-Policy.
func source(script string) string {
	sum := sha256.Sum256([]byte(script))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
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

func fileRows(files []File) (rows []fileRow) {
	for _, f := range files {
		name, _, _ := strings.Cut(f.Image, "@")
		rows = append(rows, fileRow{f.Path, name, bytesize.Format(f.Size), bytesize.Format(f.Stored)})
	}
	return rows
}
