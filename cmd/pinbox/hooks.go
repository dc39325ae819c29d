package main

import (
	"strings"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/pinset"
)

// hooks show how far a build is.
func hooks(p *cli.Progress) progress.Hooks {
	return progress.Hooks{
		Resolving: func(n int) { p.Count("resolve images", int64(n)) },
		Resolved:  func(pinset.Image) { p.Add(1) },
		Filling:   func(t pinset.Totals) { p.Begin("read layers", t.Bytes) },
		Read:      func(n int) { p.Add(int64(n)) },
		Step: func(stage string, total int64) {
			if strings.HasPrefix(stage, "resolve ") { // all other stages are of bytes
				p.Count(stage, total)
				return
			}
			p.Begin(stage, total)
		},
		Done:  func(n int) { p.Add(int64(n)) },
		Again: p.Note,
	}
}
