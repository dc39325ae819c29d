package pages

import (
	_ "embed" // the body
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

//go:embed fleet.html
var body string

// Fleet writes the page of a fleet. program names the program that makes it, with its version.
func Fleet(w io.Writer, s fleet.Summary, program string) error {
	notes := []string{"At " + at(s.Time) + "."}
	if s.BytesToGo > 0 {
		text := bytesize.Format(s.BytesToGo) + " to go"
		if !s.ETA.IsZero() {
			text += fmt.Sprintf(", done at about %s, in %s", at(s.ETA), Long(s.ETA.Sub(s.Time)))
		}
		notes = append(notes, text+".")
	}
	p := page.Page{
		Title: "Fleet", About: "the images of many nodes", Notes: notes, Program: program,
		Summary: fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Nodes),
		Body:    body, Of: s, Funcs: template.FuncMap{"at": at, "bytes": bytesize.Format, "long": Long},
	}
	return p.Write(w)
}

// at formats a time; "" for a zero one.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// Long says how long something takes.
func Long(d time.Duration) string {
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
