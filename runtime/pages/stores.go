package pages

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// stores are those that were attached, and how they are verified.
func stores(s runtime.Status) page.Section {
	p := page.Section{
		ID: "stores", Title: "Stores",
		Columns: []page.Column{
			page.Text("store"), page.Text("state"), page.Text("release"), page.Number("images"), page.Number("size"),
			page.Text("verified"), page.Text("what is wrong"),
		},
	}
	if s.OwnStore != nil {
		p.Rows = append(p.Rows, append([]page.Cell{
			{Text: "the appliance's own"}, {Text: string(runtime.StoreMounted), State: page.Good}, {}, {}, {},
		}, verity(s.OwnStore, "")...))
	}
	for _, store := range s.Stores {
		state := page.Cell{Text: string(store.State), State: page.Bad}
		switch g := store.Progress; {
		case store.State == runtime.StoreMounted:
			state.State = page.Good
		case store.State == runtime.StoreComposing && g != nil:
			state.State, state.Part, state.Of = page.Busy, g.Bytes, g.OfBytes
			if !g.ETA.IsZero() {
				state.More = []string{"done in about " + long(g.ETA.Sub(s.Time))}
			}
		}
		release := page.Cell{}
		if store.Number > 0 {
			release.Text = fmt.Sprint(store.Number)
		}
		if store.Current {
			release.More = []string{"current"}
		} else if store.Previous {
			release.More = []string{"previous"}
		}
		p.Rows = append(p.Rows, append([]page.Cell{
			{Text: cmp.Or(store.Name, "slot "+store.Slot), Code: store.Digest}, state, release, {Text: fmt.Sprint(store.Images)},
			{Text: bytesize.Format(store.Bytes)},
		}, verity(store.Verity, store.Error)...))
	}
	return p
}

// verity are the last two cells of a store.
func verity(v *runtime.VerityStatus, problem string) []page.Cell {
	if v == nil {
		return []page.Cell{{}, {Text: problem}}
	}
	state := map[runtime.VerityState]page.State{runtime.Verified: page.Good, runtime.Corrupted: page.Bad}[v.State]
	return []page.Cell{{Text: string(v.State), State: state}, {Text: cmp.Or(problem, v.Problem(0), v.Reason)}}
}

func space(s runtime.Status) page.Section {
	p := page.Section{
		ID: "space", Title: "Space",
		Columns: []page.Column{page.Text("file system of"), page.Text("used"), page.Number("free")},
	}
	for _, fs := range s.Space {
		used := bytesize.Format(fs.Bytes-fs.Free) + " of " + bytesize.Format(fs.Bytes)
		p.Rows = append(p.Rows, []page.Cell{
			{Text: fs.Path}, {Text: used, Part: fs.Bytes - fs.Free, Of: fs.Bytes}, {Text: bytesize.Format(fs.Free)},
		})
	}
	return p
}

// failures are the attempts that failed since the node has booted.
func failures(s runtime.Status) page.Section {
	p := page.Section{
		ID: "failures", Title: "Pulls that failed since the node has booted",
		Columns: []page.Column{page.Text("class"), page.Number("attempts")},
	}
	for _, class := range slices.Sorted(maps.Keys(s.Totals.PullFailures)) {
		p.Rows = append(p.Rows, []page.Cell{{Text: string(class)}, {Text: fmt.Sprint(s.Totals.PullFailures[class])}})
	}
	return p
}

// pinned are the images of the sets that need nothing.
func pinned(s runtime.Status) page.Section {
	p := page.Section{
		ID: "pinned", Title: "Images that are pinned", Columns: []page.Column{page.Text("image"), page.Text("sets")},
	}
	for _, img := range s.Images {
		if img.State == runtime.Pinned {
			p.Rows = append(p.Rows, []page.Cell{image(img.Name), {Text: strings.Join(img.Sets, ", ")}})
		}
	}
	return p
}

// others are images that no set has.
func others(s runtime.Status) page.Section {
	p := page.Section{
		ID: "others", Title: "Images that no set has", Columns: []page.Column{page.Text("image"), page.Text("state")},
	}
	for _, img := range s.StoreImages {
		name := page.Cell{Text: "image without a name"}
		if len(img.Names) > 0 {
			name = image(img.Names[0])
			name.More = img.Names[1:]
		}
		state := "in a read-only store, and pinned"
		if !img.Pinned {
			state = "in a read-only store, and not pinned: the kubelet tries in vain to remove it"
		}
		p.Rows = append(p.Rows, []page.Cell{name, {Text: state}})
	}
	for _, pin := range s.Unpinned {
		p.Rows = append(p.Rows, []page.Cell{image(pin), {Text: "on the node; no longer in a set"}})
	}
	return p
}
