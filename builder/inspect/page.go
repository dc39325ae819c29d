package inspect

import (
	"cmp"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// The parts of the page that are its own. d3-hierarchy 3.1.3, which lays out the treemap, is that of the npm registry:
// `make page`.
var (
	//go:embed page/body.html
	body string
	//go:embed page/page.css
	style string
	//go:embed page/page.js
	script string
	//go:embed page/d3-hierarchy.min.js
	library string
)

// HTML writes the report as one page that needs no other file and no network. version is that of pinbox.
func (r Report) HTML(w io.Writer, version string) error {
	p := page.Page{
		Title: cmp.Or(r.Name, "store"), About: "what fills the store", Summary: r.summary(), Program: "pinbox " + version,
		Style: template.CSS(style), Body: body, Of: r,
		Funcs: template.FuncMap{
			"about": Held.about, "bases": Report.bases, "bytes": bytesize.Format, "day": Day, "join": strings.Join,
			"name":   func(pin string) string { name, _, _ := strings.Cut(pin, "@"); return name },
			"digest": func(pin string) string { _, digest, _ := strings.Cut(pin, "@"); return digest },
			"state":  func(known any) string { return states[fmt.Sprint(known)] },
		},
	}
	if r.HasFiles() {
		p.Scripts = []template.JS{template.JS(library), template.JS(script)}
		p.Data = r.tree
	}
	return p.Write(w)
}

// HasFiles reports whether there is a file to draw in the treemap.
func (r Report) HasFiles() bool { return r.tree.Stored > 0 }

func (r Report) summary() string {
	release := ""
	if r.Number > 0 {
		release = fmt.Sprintf("release %d, ", r.Number)
	}
	text := fmt.Sprintf("%s%s: %d images of %d layers", release, r.Platform, len(r.Images), len(r.Layers))
	if r.Size > 0 {
		text += " in a store of " + bytesize.Format(r.Size)
	}
	return text
}

// openBases is how many images must share a layer for its part of the tree to be open at first.
const openBases = 2

// branch is a layer, with what stands on it, or an image that ends at a layer.
type branch struct {
	Label   string
	Open    bool
	Members []*branch
}

// bases are the lowest layers.
func (r Report) bases() (lowest []*branch) {
	layers := make([]*branch, len(r.Layers))
	for i, l := range r.Layers {
		shown := bytesize.Format(l.Stored)
		if l.Elsewhere {
			shown = "not in this store"
		}
		layers[i] = &branch{
			Label: fmt.Sprintf("layer %.12s, %s, of %d images", l.DiffID.Encoded(), shown, l.Images),
			Open:  l.Images >= openBases,
		}
		if l.Parent < 0 {
			lowest = append(lowest, layers[i])
		} else {
			layers[l.Parent].Members = append(layers[l.Parent].Members, layers[i])
		}
	}
	for _, img := range r.Images {
		if n := len(img.Layers); n > 0 {
			name, _, _ := strings.Cut(img.Pin, "@")
			last := layers[img.Layers[n-1]]
			last.Members = append(last.Members, &branch{Label: name})
		}
	}
	return lowest
}

// shownLabels are the labels that the page shows: what an image is, of which version, and from where.
var shownLabels = []struct{ label, shown string }{
	{"org.opencontainers.image.title", "title"}, {"org.opencontainers.image.version", "version"},
	{"version", "version"}, {"release", "release"}, {"vendor", "vendor"},
	{"org.opencontainers.image.source", "source"}, {"org.opencontainers.image.revision", "revision"},
	{"org.opencontainers.image.licenses", "licenses"},
}

// maxLabel is how many characters of a label the page shows.
const maxLabel = 120

// about are the labels of an image for people.
func (img Held) about() (lines []string) {
	for _, l := range shownLabels {
		value := []rune(img.Labels[l.label])
		if len(value) > maxLabel {
			value = append(value[:maxLabel:maxLabel], '…')
		}
		line := l.shown + " " + string(value)
		if len(value) > 0 && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return lines
}

// Day is the day of a time; "" if it is unknown. Reproducible builds of images have the first of 1970.
func Day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateOnly)
}

// Extent is the size of a document, or how many files it has.
func (d Document) Extent() string {
	if d.Files > 0 {
		return fmt.Sprintf("%d files", d.Files)
	}
	return bytesize.Format(d.Size)
}

// Signed says by what an image is signed.
func (img Held) Signed() string {
	if len(img.Signatures) == 0 {
		return string(img.Check)
	}
	var forms []string
	for _, s := range img.Signatures {
		if !slices.Contains(forms, s.Form) {
			forms = append(forms, s.Form)
		}
	}
	text := strings.Join(forms, ", ")
	if n := len(img.Signatures); n > len(forms) {
		text = fmt.Sprintf("%d of %s", n, text)
	}
	return text + ": " + string(img.Check)
}

// Signed says by what a document is signed.
func (d Document) Signed() string {
	switch {
	case len(d.Signatures) > 0 && d.Signatures[0].Problem != "":
		return d.Signatures[0].File + " cannot be read: " + string(d.Check)
	case len(d.Signatures) > 0:
		return "signed: " + string(d.Check)
	case d.Check != Unsigned:
		return "by the sums: " + string(d.Check)
	}
	return string(Unsigned)
}

// states are the colours of what is known of documents.
var states = map[string]string{
	string(Verified): "good", string(Same): "good",
	string(Differs): "bad", string(Missing): "bad", string(Unlisted): "bad",
}
