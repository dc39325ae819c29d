package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/pinset"
)

// planned is the result of `plan --output json`. Sizes are in bytes.
type planned struct {
	Owner   runtime.Owner `json:"owner"`
	Pins    int           `json:"pins"`
	Rewrite bool          `json:"rewrite"`
	Reload  bool          `json:"reload"`
	Unpin   []string      `json:"unpin,omitempty"`
	Pulls   []plannedPull `json:"pulls"`
	Copies  []plannedPull `json:"copies,omitempty"`
	Space   []claim       `json:"space,omitempty"`
	Errors  []string      `json:"errors,omitempty"`
}

type plannedPull struct {
	Image      string        `json:"image"`
	Fetch      int64         `json:"fetch"`
	Unpacked   int64         `json:"unpacked"`
	Inodes     int64         `json:"inodes"`
	Estimated  bool          `json:"estimated,omitempty"`
	ErrorClass runtime.Class `json:"errorClass,omitempty"`
	Error      string        `json:"error,omitempty"`
}

type claim struct {
	Path       string `json:"path"`
	Bytes      int64  `json:"bytes"`
	Free       int64  `json:"free"`
	Inodes     int64  `json:"inodes"`
	FreeInodes int64  `json:"freeInodes,omitempty"`
	Estimated  bool   `json:"estimated,omitempty"`
}

func describe(p runtime.Plan) planned {
	d := planned{Owner: p.Owner, Pins: len(p.Pins), Rewrite: p.Rewrite, Reload: p.Reload, Pulls: []plannedPull{}}
	for _, img := range p.Unpin {
		d.Unpin = append(d.Unpin, img.String())
	}
	for _, pull := range p.Pulls {
		d.Pulls = append(d.Pulls, describePull(pull))
	}
	for _, img := range p.Copies {
		d.Copies = append(d.Copies, describePull(img))
	}
	for _, img := range slices.SortedFunc(maps.Keys(p.Unresolved), func(a, b pinset.Image) int {
		return strings.Compare(a.String(), b.String())
	}) {
		d.Pulls = append(d.Pulls, plannedPull{
			Image: img.String(), ErrorClass: p.Unresolved[img].Class, Error: p.Unresolved[img].Text,
		})
	}
	for _, c := range p.Claims {
		d.Space = append(d.Space, claim{
			Path: c.Space.Path, Bytes: c.Bytes, Free: c.Space.Free, Inodes: c.Inodes, FreeInodes: c.Space.FreeInodes,
			Estimated: c.Estimated,
		})
	}
	for _, err := range append(p.Problems, p.Problem) {
		if err != nil {
			d.Errors = append(d.Errors, strings.Split(err.Error(), "\n")...)
		}
	}
	return d
}

func describePull(p runtime.Pull) plannedPull {
	return plannedPull{
		Image: p.Image.String(), Fetch: p.Fetch, Unpacked: p.Unpacked, Inodes: p.Inodes, Estimated: p.Estimated,
	}
}

// print shows the plan as a table. Its errors follow on stderr.
func (d planned) print(w io.Writer) error {
	t := cli.Table(w)
	if len(d.Pulls) > 0 {
		fmt.Fprintln(t, "PULL\tFETCH\tUNPACKED")
	}
	for _, p := range d.Pulls {
		if p.Error != "" {
			fmt.Fprintf(t, "%s\t%s: %s\n", p.Image, p.ErrorClass, p.Error)
			continue
		}
		fmt.Fprintf(t, "%s\t%s\t%s%s\n", p.Image, bytesize.Format(p.Fetch), about(p.Estimated), bytesize.Format(p.Unpacked))
	}
	for _, c := range d.Copies {
		fmt.Fprintf(t, "copy %s as an image volume: %s\n", c.Image, bytesize.Format(c.Unpacked))
	}
	for _, name := range d.Unpin {
		fmt.Fprintf(t, "unpin %s\n", name)
	}
	for _, c := range d.Space {
		fmt.Fprintf(t, "%s%s needed in %s, including staged blobs; %s free\n", about(c.Estimated),
			bytesize.Format(c.Bytes), c.Path, bytesize.Format(c.Free))
	}
	switch {
	case d.Owner == runtime.MCO:
		fmt.Fprintln(t, "nothing to do: the Machine Config Operator owns the pins of this node")
	case d.Rewrite:
		fmt.Fprintf(t, "the drop-in is rewritten with %d pins, and CRI-O reloads\n", d.Pins)
	case d.Reload:
		fmt.Fprintln(t, "CRI-O reloads, since its pins differ from the drop-in")
	case len(d.Pulls)+len(d.Copies)+len(d.Errors) == 0:
		fmt.Fprintf(t, "nothing to do: all %d images are on the node and pinned\n", d.Pins)
	}
	return t.Flush()
}

func about(estimated bool) string {
	if estimated {
		return "about "
	}
	return ""
}
