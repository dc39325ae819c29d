package inventory

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// Sections are the tables of the inventory on a page.
func (v Inventory) Sections() []page.Section {
	return []page.Section{v.images(), v.documents(), v.signatures()}
}

// images is the table of the images and of OCI artifacts.
func (v Inventory) images() page.Section {
	s := page.Section{
		ID: "inventory", Title: "Inventory",
		Columns: []page.Column{
			page.Text("image"), page.Text("name"), page.Number("created"), page.Number("layers"), page.Text("signatures"),
		},
	}
	for _, img := range v.Images {
		pin := page.Cell{Text: img.Repository, Code: img.Digest.String(), More: img.Tags}
		s.Rows = append(s.Rows, []page.Cell{
			pin, {Text: img.Name, More: append([]string{string(img.Platform)}, img.about()...)}, {Text: Day(img.Created)},
			{Text: strconv.Itoa(img.Layers)}, {Text: img.Signed()},
		})
	}
	for _, a := range v.artifacts {
		name, digest, _ := strings.Cut(a.Pin, "@")
		s.Rows = append(s.Rows, []page.Cell{
			{Text: name, Code: digest, More: a.Tags}, {Text: "OCI artifact", More: []string{a.Type}}, {}, {}, {},
		})
	}
	return s
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
func (i Image) about() (lines []string) {
	for _, l := range shownLabels {
		value := []rune(i.Labels[l.label])
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

// Signed says by what an image is signed.
func (i Image) Signed() string {
	if len(i.Signatures) == 0 {
		return string(i.Check)
	}
	var forms []string
	for _, s := range i.Signatures {
		if !slices.Contains(forms, s.Form) {
			forms = append(forms, s.Form)
		}
	}
	text := strings.Join(forms, ", ")
	if n := len(i.Signatures); n > len(forms) {
		text = fmt.Sprintf("%d of %s", n, text)
	}
	return text + ": " + string(i.Check)
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
		size := bytesize.Format(d.Size)
		if d.Files > 0 {
			size = fmt.Sprintf("%d files", d.Files)
		}
		s.Rows = append(s.Rows, []page.Cell{
			{Text: d.Name, Code: d.SHA256}, {Text: d.Kind}, {Text: size}, {Text: string(d.Sums), State: d.Sums.state()},
			{Text: d.Signed(), State: d.Check.state()},
		})
	}
	return s
}

func (s Sums) state() page.State {
	switch s {
	case Differs, Missing, Unlisted:
		return page.Bad
	case Same:
		return page.Good
	}
	return ""
}

func (c Check) state() page.State {
	if c == Verified {
		return page.Good
	}
	return ""
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
			result := page.Cell{Text: string(one.Check), State: one.Check.state()}
			if one.Problem != "" {
				result = page.Cell{Text: one.Problem, State: page.Bad}
			}
			s.Rows = append(s.Rows, []page.Cell{
				{Text: d.Name, More: []string{one.File}}, {Text: "detached"}, keyCell(nil), {}, result,
			})
		}
	}
	for _, img := range v.Images {
		for _, one := range img.Signatures {
			names := page.Cell{Text: one.Reference, Code: string(one.Manifest)}
			if one.Other {
				names.State, names.More = page.Bad, []string{"this is another image"}
			}
			s.Rows = append(s.Rows, []page.Cell{
				{Text: img.Repository, Code: img.Digest.String()}, {Text: one.Form}, keyCell(one.Keys), names,
				{Text: string(one.Check)},
			})
		}
	}
	if len(s.Rows) == 0 {
		s.Text, s.Note, s.Lines = "", "", append([]string{"Nothing here has a signature that was read."}, s.Lines...)
	}
	return s
}

func keyCell(ids []string) page.Cell {
	if len(ids) == 0 {
		return page.Cell{Text: "not named"}
	}
	return page.Cell{Text: strings.Join(ids, ", ")}
}
