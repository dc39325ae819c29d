package pages

import (
	_ "embed" // body and style
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/page"
)

var (
	//go:embed fleet.html
	body string
	//go:embed fleet.css
	style string
)

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
	signs := signs(s.NotReady)
	p := page.Page{
		Title: "Fleet", About: "the images of many nodes", Notes: notes, Program: program,
		Summary: fmt.Sprintf("%d of %d nodes are ready", s.Ready, s.Nodes),
		Body:    body, Style: template.CSS(style), Of: s, Funcs: template.FuncMap{
			"at": at, "bytes": bytesize.Format, "long": Long, "colour": colour,
			"sign": func(reason int) string { return signs[reason] },
		},
	}
	return p.Write(w)
}

// signs are what tiles have for each reason, so that nobody needs their colours: a letter of it that no other has.
func signs(reasons []fleet.Reason) (all []string) {
	for n, r := range reasons {
		sign := strconv.Itoa(n)
		for _, letter := range strings.ToUpper(r.Reason) {
			if unicode.IsLetter(letter) && !slices.Contains(all, string(letter)) {
				sign = string(letter)
				break
			}
		}
		all = append(all, sign)
	}
	return all
}

// colour is that of nodes that are not ready for a reason: of what is busy nobody has to take care.
func colour(reason string) string {
	if reason == fleet.Pulling {
		return "busy"
	}
	return "bad"
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
