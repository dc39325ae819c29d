package pages

import (
	"fmt"
	"io"
	"time"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// Fleet writes the page of a fleet. program names the program that makes it, with its version.
func Fleet(w io.Writer, s fleet.Summary, program string) error {
	notes := []string{"At " + at(s.Time) + "."}
	if s.BytesToGo > 0 {
		text := bytesize.Format(s.BytesToGo) + " to go"
		if !s.ETA.IsZero() {
			text += fmt.Sprintf(", done at about %s, in %s", at(s.ETA), long(s.ETA.Sub(s.Time)))
		}
		notes = append(notes, text+".")
	}
	p := page.Page{
		Title: "Fleet", About: "the images of many nodes", Notes: notes, Program: program,
		Summary: fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Nodes),
	}
	p.Sections = []page.Section{notReady(s), fleetSets(s)}
	releases := counts("releases", "Current releases", "release")
	for _, r := range s.Releases {
		releases.Rows = append(releases.Rows, []page.Cell{{Text: r.Title()}, part(r.Nodes, s.Nodes, "")})
	}
	programs := counts("programs", "Versions of pinbox-node", "version")
	for _, program := range s.Programs {
		programs.Rows = append(programs.Rows, []page.Cell{{Text: program.Program}, part(program.Nodes, s.Nodes, "")})
	}
	ready := page.Section{ID: "ready", Title: "Nodes that are ready", Lines: s.ReadyNodes}
	p.Sections = append(p.Sections, releases, programs, ready)
	return p.Write(w)
}

// notReady has a row for each node, with the reasons in order.
func notReady(s fleet.Summary) page.Section {
	p := page.Section{
		ID: "not-ready", Title: "Nodes that are not ready",
		Columns: []page.Column{
			page.Text("node"), page.Text("reason"), page.Text("since"), page.Number("to go"), page.Text("done"),
			page.Text("why"),
		},
	}
	for _, reason := range s.NotReady {
		state := page.Bad
		if reason.Reason == fleet.Pulling {
			state = page.Busy
		}
		for _, n := range reason.Nodes {
			since, done, bytes := page.Cell{Text: at(n.Since)}, page.Cell{Text: at(n.ETA)}, ""
			if !n.Since.IsZero() {
				since.More = []string{long(s.Time.Sub(n.Since))}
			}
			if !n.ETA.IsZero() {
				done.More = []string{"in " + long(n.ETA.Sub(s.Time))}
			}
			if n.BytesToGo > 0 {
				bytes = bytesize.Format(n.BytesToGo)
			}
			p.Rows = append(p.Rows, []page.Cell{
				{Text: n.Node}, {Text: reason.Reason, State: state}, since, {Text: bytes}, done, {Text: n.Text},
			})
		}
	}
	return p
}

func fleetSets(s fleet.Summary) page.Section {
	p := counts("sets", "Sets", "set")
	for _, set := range s.Sets {
		state := page.Good
		if set.Ready < set.Nodes {
			state = page.Bad
		}
		p.Rows = append(p.Rows, []page.Cell{{Text: set.Name}, part(set.Ready, set.Nodes, state)})
	}
	return p
}

// counts is a section that counts nodes by something.
func counts(id, title, by string) page.Section {
	return page.Section{ID: id, Title: title, Columns: []page.Column{page.Text(by), page.Text("nodes")}}
}

// part is a cell with a part of all nodes.
func part(some, all int, state page.State) page.Cell {
	return page.Cell{
		Text: fmt.Sprintf("%d of %d nodes", some, all), State: state, Part: int64(some), Of: int64(all),
	}
}

// at formats a time; "" for a zero one.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// long says how long something takes.
func long(d time.Duration) string {
	d = max(d, 0)
	switch minutes := int(d / time.Minute); {
	case minutes < 1:
		return fmt.Sprintf("%d s", int(d/time.Second))
	case minutes < 60:
		return fmt.Sprintf("%d min", minutes)
	case minutes < 48*60:
		return fmt.Sprintf("%d h %d min", minutes/60, minutes%60)
	default:
		return fmt.Sprintf("%d days", minutes/60/24)
	}
}
