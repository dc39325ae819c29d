package inspect

import (
	"bytes"
	"cmp"
	_ "embed" // the parts of the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
	"github.com/pinbox/pinbox/storage/pinset"
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

// HTML writes the report as one page that needs no other file and no network. version is that of pinbox.
func (r Report) HTML(w io.Writer, version string) error {
	p := page.Page{
		Title: cmp.Or(r.Name, "store"), About: "what fills the store", Summary: r.summary(), Program: "pinbox " + version,
		Style: template.CSS(style),
	}
	if r.tree.Stored > 0 {
		p.Scripts = []template.JS{template.JS(library), template.JS(script)}
		p.Data = r.tree
		p.Sections = append(p.Sections, page.Section{
			ID: "map", Title: "What fills the store", HTML: template.HTML(treemap),
			Note: "Enter or a click opens a field, Escape goes up.",
		})
	}
	bases, err := r.bases()
	if err != nil {
		return err
	}
	hidden := files("hidden", "Files that no container sees", r.Hidden)
	hidden.Text = "A layer above has another file at the same path, or removes it. All of them take " +
		bytesize.Format(r.HiddenStored) + "."
	p.Sections = append(p.Sections, r.against(), r.images(), r.held(), r.Inventory.documents(), r.Inventory.signatures(),
		bases, files("largest", "Largest files", r.Largest), hidden)
	return p.Write(w)
}

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

// against is the table of what has changed.
func (r Report) against() page.Section {
	c := r.Against
	if c == nil {
		return page.Section{}
	}
	than := "the older one"
	if c.Number > 0 {
		than = "release " + strconv.FormatInt(c.Number, 10)
	}
	layers := func(t pinset.BlobTotals) string { return fmt.Sprintf("%d (%s)", t.Count, bytesize.Format(t.Bytes)) }
	s := page.Section{
		ID: "against", Title: "What has changed since " + than,
		Columns: []page.Column{
			page.Text("image"), page.Text("what"), page.Number("was in a registry"), page.Number("is in a registry"),
			page.Number("new layers"),
		},
		Text: fmt.Sprintf("%d images are changed, %d added, %d removed, and %d as they were. The layers in a registry: "+
			"%s are new, %s are gone, and %s are as they were.", len(c.Changed), len(c.Added), len(c.Removed),
			len(c.Unchanged), layers(c.LayersAdded), layers(c.LayersRemoved), layers(c.LayersUnchanged)),
	}
	if c.Size > 0 && r.Size > 0 {
		s.Text += fmt.Sprintf(" The store takes %s, and took %s.", bytesize.Format(r.Size), bytesize.Format(c.Size))
	}
	if len(c.Changed)+len(c.Added)+len(c.Removed) == 0 {
		s.Lines = []string{"No image is another one."}
	}
	for _, change := range c.Changed {
		image := pinCell(change.Old)
		_, now, _ := strings.Cut(change.New, "@")
		image.More = []string{"→ " + now}
		fresh := fmt.Sprintf("%s, %d of %d", bytesize.Format(change.NewLayers.Bytes), change.NewLayers.Count, change.Layers)
		s.Rows = append(s.Rows, []page.Cell{
			image, {Text: "changed", State: page.Busy}, bytesCell(c.Bytes[change.Old]), bytesCell(c.Bytes[change.New]),
			{Text: fresh},
		})
	}
	for _, pin := range c.Added {
		s.Rows = append(s.Rows,
			[]page.Cell{pinCell(pin), {Text: "added", State: page.Good}, {}, bytesCell(c.Bytes[pin]), {}})
	}
	for _, pin := range c.Removed {
		s.Rows = append(s.Rows,
			[]page.Cell{pinCell(pin), {Text: "removed", State: page.Bad}, bytesCell(c.Bytes[pin]), {}, {}})
	}
	return s
}

// images is the table of what images take.
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
			name, {Text: strconv.Itoa(len(img.Layers))}, bytesCell(img.Blobs), bytesCell(img.Stored), bytesCell(img.Saving),
		})
	}
	return s
}

// held is the table of what is known of images, and of OCI artifacts.
func (r Report) held() page.Section {
	s := page.Section{
		ID: "inventory", Title: "Inventory",
		Columns: []page.Column{
			page.Text("image"), page.Text("name"), page.Number("created"), page.Number("layers"), page.Text("signatures"),
		},
	}
	for _, img := range r.Inventory.Images {
		pin := pinCell(img.Pin)
		pin.More = img.Tags
		name := page.Cell{Text: img.Name, More: append([]string{string(img.Platform)}, img.about()...)}
		s.Rows = append(s.Rows, []page.Cell{
			pin, name, {Text: Day(img.Created)}, {Text: strconv.Itoa(img.Layers)}, {Text: img.Signed()},
		})
	}
	for _, a := range r.Artifacts {
		pin := pinCell(a.Pin)
		pin.More = a.Tags
		s.Rows = append(s.Rows, []page.Cell{pin, {Text: "OCI artifact", More: []string{a.Type}}, {}, {}, {}})
	}
	return s
}

// documents is the table of the store and the files beside it.
func (v Inventory) documents() page.Section {
	s := page.Section{
		ID: "documents", Title: "Documents",
		Columns: []page.Column{
			page.Text("document"), page.Text("what"), page.Number("size"), page.Text("in the sums"), page.Text("signature"),
		},
	}
	if slices.ContainsFunc(v.Documents, func(d Document) bool { return d.Sums != "" }) {
		s.Text = "Only small documents were compared with the sums; pinbox verify compares all of them."
	}
	for _, d := range v.Documents {
		s.Rows = append(s.Rows, []page.Cell{
			{Text: d.Name, Code: d.SHA256}, {Text: d.Kind}, {Text: d.Extent()},
			{Text: string(d.Sums), State: states[string(d.Sums)]}, {Text: d.Signed(), State: states[string(d.Check)]},
		})
	}
	return s
}

// signatures is the table of all signatures.
func (v Inventory) signatures() page.Section {
	s := page.Section{
		ID: "signatures", Title: "Signatures",
		Columns: []page.Column{page.Text("of"), page.Text("form"), page.Text("key"), page.Text("names"), page.Text("result")},
		Text: "No signature was checked: all of this is what the signatures say of themselves. " +
			"pinbox inspect --key checks those of documents.",
		Note:  "The signatures of images are for the policies of CRI-O and of builds.",
		Lines: v.Unread,
	}
	if v.Keys != "" {
		s.Text = "The signatures of documents were checked with the keys in " + v.Keys + ", those of images were not."
	}
	for _, d := range v.Documents {
		for _, one := range d.Signatures {
			result := page.Cell{Text: string(one.Check), State: states[string(one.Check)]}
			if one.Problem != "" {
				result = page.Cell{Text: one.Problem, State: page.Bad}
			}
			s.Rows = append(s.Rows, []page.Cell{
				{Text: d.Name, More: []string{one.File}}, {Text: "detached"}, {Text: "not named"}, {}, result,
			})
		}
	}
	for _, img := range v.Images {
		for _, one := range img.Signatures {
			keys := cmp.Or(strings.Join(one.Keys, ", "), "not named")
			names := page.Cell{Text: one.Reference, Code: string(one.Manifest)}
			if one.Other {
				names.State = page.Bad
				names.More = []string{"this is another image"}
			}
			s.Rows = append(s.Rows,
				[]page.Cell{pinCell(img.Pin), {Text: one.Form}, {Text: keys}, names, {Text: string(one.Check)}})
		}
	}
	if len(s.Rows) == 0 {
		s.Text, s.Note, s.Lines = "", "", append([]string{"Nothing here has a signature that was read."}, s.Lines...)
	}
	return s
}

// openBases is how many images must share a layer for its part of the tree to be open at first.
const openBases = 2

// bases is the tree of layers, with the images that end at each.
func (r Report) bases() (page.Section, error) {
	type row struct {
		Label   string
		Open    bool
		Members []*row
	}
	var top []*row
	rows := make([]*row, len(r.Layers))
	for i, l := range r.Layers {
		shown := bytesize.Format(l.Stored)
		if l.Elsewhere {
			shown = "not in this store"
		}
		rows[i] = &row{
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
			last := rows[img.Layers[n-1]]
			last.Members = append(last.Members, &row{Label: pinCell(img.Pin).Text})
		}
	}
	t, err := template.New("bases").Parse(basesText)
	if err != nil {
		return page.Section{}, err
	}
	var text bytes.Buffer
	err = t.Execute(&text, top)
	return page.Section{
		ID: "bases", Title: "Which images share which layers", HTML: template.HTML(text.String()),
	}, err
}

// files is a table of files.
func files(id, title string, all []File) page.Section {
	s := page.Section{
		ID: id, Title: title,
		Columns: []page.Column{page.Text("file"), page.Text("image"), page.Number("size"), page.Number("in the store")},
	}
	for _, f := range all {
		s.Rows = append(s.Rows,
			[]page.Cell{{Text: f.Path}, {Text: pinCell(f.Image).Text}, bytesCell(f.Size), bytesCell(f.Stored)})
	}
	return s
}

// pinCell is a cell with the name of an image, and its digest below.
func pinCell(pin string) page.Cell {
	name, digest, _ := strings.Cut(pin, "@")
	return page.Cell{Text: name, Code: digest}
}

func bytesCell(n int64) page.Cell { return page.Cell{Text: bytesize.Format(n)} }

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
var states = map[string]page.State{
	string(Verified): page.Good, string(Same): page.Good,
	string(Differs): page.Bad, string(Missing): page.Bad, string(Unlisted): page.Bad,
}
