package pages

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

// Node writes the page of a node. program names the program that makes it, with its version.
func Node(w io.Writer, s runtime.Status, program string) error {
	return page.Page{
		Title: cmp.Or(s.Node, "node"), About: "the images of a node", Summary: s.Summary(), Notes: notes(s), Program: program,
		Sections: []page.Section{
			problems(s), missing(s), sets(s), conditions(s), stores(s), space(s), failures(s), pinned(s), others(s),
		},
	}.Write(w)
}

// notes say when this was, and of whom.
func notes(s runtime.Status) []string {
	about := "At " + at(s.Time)
	for _, text := range []string{s.Runtime, programs(s.Program)} {
		if text != "" {
			about += ", " + text
		}
	}
	if len(s.Pools) > 0 {
		about += ", pools " + strings.Join(s.Pools, ", ")
	}
	all := []string{about + "."}
	if !s.Totals.LastSuccess.IsZero() && !s.Healthy() {
		all = append(all, fmt.Sprintf("All was well last at %s, %s before.", at(s.Totals.LastSuccess),
			long(s.Time.Sub(s.Totals.LastSuccess))))
	}
	if s.Owner == runtime.MCO {
		all = append(all, "The Machine Config Operator owns the pins of this node; pinbox-node only reports.")
	}
	return all
}

func programs(p *runtime.ProgramStatus) string {
	if p == nil || p.Running.Version == "" {
		return ""
	}
	return "pinbox-node " + p.Running.Version
}

// problems are what is wrong with no single image.
func problems(s runtime.Status) page.Section {
	p := page.Section{ID: "problems", Title: "What is wrong"}
	for _, set := range s.Sets {
		if set.Images == 0 && set.LastFailedGenerationError != "" { // a file that cannot be read as a set
			p.Lines = append(p.Lines, set.LastFailedGenerationError)
		}
	}
	p.Lines = append(append(append(p.Lines, s.Errors...), s.Cluster.Lines()...), s.OperatorLines()...)
	if s.ReloadDue {
		p.Lines = append(p.Lines, "CRI-O may not have read the pins since they were written.")
	}
	return p
}

// states of images, for the eye.
var states = map[runtime.State]page.State{
	runtime.Pinned: page.Good, runtime.Pulling: page.Busy, runtime.Present: page.Busy, runtime.Missing: page.Bad,
	runtime.Unknown: page.Bad,
}

// missing are the images that are not pinned, and why.
func missing(s runtime.Status) page.Section {
	p := page.Section{
		ID: "missing", Title: "Images that are missing, or not pinned",
		Columns: []page.Column{
			page.Text("image"), page.Text("state"), page.Number("to fetch"), page.Text("why"), page.Text("sets"),
		},
	}
	for _, img := range s.Images {
		if img.State == runtime.Pinned {
			continue
		}
		why, bytes := "", ""
		if img.Error != "" {
			why = fmt.Sprintf("%s: %s", img.ErrorClass, img.Error)
		}
		if img.Bytes > 0 {
			bytes = bytesize.Format(img.Bytes)
		}
		p.Rows = append(p.Rows, []page.Cell{
			image(img.Name), {Text: string(img.State), State: states[img.State]}, {Text: bytes}, {Text: why},
			{Text: strings.Join(img.Sets, ", ")},
		})
	}
	if g := s.Progress; g != nil {
		p.Text = fmt.Sprintf("%d of %d images are pulled, %s of %s", g.Images, g.OfImages, bytesize.Format(g.Bytes),
			bytesize.Format(g.OfBytes))
		if !g.ETA.IsZero() {
			p.Text += fmt.Sprintf("; done at about %s, in %s", at(g.ETA), long(g.ETA.Sub(s.Time)))
		}
		p.Text += "."
	}
	return p
}

// image is a cell with the name of an image, and its digest below.
func image(pin string) page.Cell {
	name, digest, _ := strings.Cut(pin, "@")
	return page.Cell{Text: name, Code: digest}
}

func sets(s runtime.Status) page.Section {
	p := page.Section{
		ID: "sets", Title: "Sets",
		Columns: []page.Column{
			page.Text("set"), page.Text("pinned"), page.Number("missing"), page.Text("generation"), page.Text("what failed"),
		},
	}
	for _, set := range s.Sets {
		state := page.Bad
		if set.Ready() {
			state = page.Good
		}
		generation := short(set.DesiredGeneration)
		if set.CurrentGeneration != set.DesiredGeneration {
			generation += ", complete was " + cmp.Or(short(set.CurrentGeneration), "none")
		}
		p.Rows = append(p.Rows, []page.Cell{
			{Text: set.Name}, part(set.Pinned, set.Images, "images", state), {Text: fmt.Sprint(set.Missing)}, {Text: generation},
			{Text: set.LastFailedGenerationError},
		})
	}
	return p
}

// part is a cell with a part of a whole.
func part(some, all int, of string, state page.State) page.Cell {
	return page.Cell{
		Text: fmt.Sprintf("%d of %d %s", some, all, of), State: state, Part: int64(some), Of: int64(all),
	}
}

// conditions say for how long the node has been as it is.
func conditions(s runtime.Status) page.Section {
	p := page.Section{
		ID: "conditions", Title: "Conditions",
		Columns: []page.Column{
			page.Text("condition"), page.Text("status"), page.Text("since"), page.Text("reason"), page.Text("message"),
		},
	}
	for _, c := range s.Conditions {
		state := page.State("")
		if c.Status == "True" {
			state = map[string]page.State{runtime.ProgressingCondition: page.Busy, runtime.DegradedCondition: page.Bad}[c.Type]
		}
		since := page.Cell{Text: at(c.LastTransitionTime)}
		if !c.LastTransitionTime.IsZero() {
			since.More = []string{long(s.Time.Sub(c.LastTransitionTime))}
		}
		p.Rows = append(p.Rows, []page.Cell{
			{Text: c.Type}, {Text: c.Status, State: state}, since, {Text: c.Reason}, {Text: c.Message},
		})
	}
	return p
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

// short is the start of a digest; a number stays as it is.
func short(generation string) string { return generation[:min(len(generation), 12)] }
