package usage

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Comparison is how a store differs from an older one.
type Comparison struct {
	// ReleaseID, Size and Stored are those of the older one; the sizes are 0 if only its lock was read.
	pinset.ReleaseID
	Size   int64 `json:"size"`
	Stored int64 `json:"stored"`
	pinset.Difference
	// Bytes are the sizes in a registry of the images that are changed, added and removed, by their pins.
	Bytes map[string]int64 `json:"bytes"`
}

// Since returns the report with how it differs from an older one.
func (r Report) Since(old Report) Report {
	c := Comparison{
		ReleaseID: old.ReleaseID, Size: old.Size, Stored: old.Stored, Difference: pinset.Compare(old.lock, r.lock),
		Bytes: map[string]int64{},
	}
	unchanged := map[string]bool{}
	for _, pin := range c.Unchanged {
		unchanged[pin] = true
	}
	for _, images := range [][]Image{old.Images, r.Images} {
		for _, img := range images {
			if !unchanged[img.Pin] {
				c.Bytes[img.Pin] = img.Blobs
			}
		}
	}
	r.Against = &c
	return r
}

// against is the table of what has changed.
func (r Report) against() page.Section {
	c := r.Against
	if c == nil {
		return page.Section{}
	}
	s := page.Section{
		ID: "against", Title: "What has changed since " + c.title(),
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
		_, before, _ := strings.Cut(change.Old, "@")
		name, now, _ := strings.Cut(change.New, "@")
		s.Rows = append(s.Rows, []page.Cell{
			{Text: name, Code: before, More: []string{"→ " + now}}, {Text: "changed", State: page.Busy},
			{Text: bytesize.Format(c.Bytes[change.Old])}, {Text: bytesize.Format(c.Bytes[change.New])},
			{Text: fmt.Sprintf("%s, %d of %d", bytesize.Format(change.NewLayers.Bytes), change.NewLayers.Count, change.Layers)},
		})
	}
	for _, pin := range c.Added {
		s.Rows = append(s.Rows, []page.Cell{
			pinCell(pin), {Text: "added", State: page.Good}, {}, {Text: bytesize.Format(c.Bytes[pin])}, {},
		})
	}
	for _, pin := range c.Removed {
		s.Rows = append(s.Rows, []page.Cell{
			pinCell(pin), {Text: "removed", State: page.Bad}, {Text: bytesize.Format(c.Bytes[pin])}, {}, {},
		})
	}
	return s
}

// title names the older store.
func (c Comparison) title() string {
	if c.Number > 0 {
		return "release " + strconv.FormatInt(c.Number, 10)
	}
	return "the older one"
}

func layers(v pinset.BlobTotals) string {
	return fmt.Sprintf("%d (%s)", v.Count, bytesize.Format(v.Bytes))
}

// pinCell is a cell with the name of an image, and its digest below.
func pinCell(pin string) page.Cell {
	name, digest, _ := strings.Cut(pin, "@")
	return page.Cell{Text: name, Code: digest}
}
