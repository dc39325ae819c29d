package main

import (
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
)

// hooks returns hooks that show the progress of a build.
func hooks(p *cli.Progress) progress.Hooks {
	return progress.Hooks{
		Step: func(name string, total int64, unit progress.Unit) {
			if unit == progress.Items {
				p.Count(name, total)
			} else {
				p.Begin(name, total)
			}
		},
		Done:     func(n int) { p.Add(int64(n)) },
		Layer:    func(l progress.Layer) { p.Layer(l.Name, l.Done, l.Total, l.Ended) },
		Retrying: p.Note,
	}
}
