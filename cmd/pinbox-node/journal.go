package main

import (
	"log/slog"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// logTo logs what a pass does and what it waits for.
func (f *passFlags) logTo(log *slog.Logger) {
	f.Hooks = passHooks(log)
	f.Waiting = func(why error) { log.Info(why.Error() + "; waiting") }
}

// passHooks log what a pass does.
func passHooks(log *slog.Logger) runtime.Hooks {
	return runtime.Hooks{
		Planned: func(p runtime.Plan) {
			n := p.Need()
			log.Info("planned", "pins", len(p.Pins), "unpin", len(p.Unpin), "pull", len(p.Pulls), "fetch", n.Fetch, "unpacked",
				n.Unpacked, "estimated", n.Estimated)
			for _, err := range p.Problems {
				if err != nil {
					log.Warn("the plan is less exact", "error", err)
				}
			}
		},
		Pinned: func(images []pinset.Image) { log.Info("pinned and reloaded", "images", len(images)) },
		Pulled: func(p runtime.Pull, took time.Duration) {
			log.Info("pulled", "image", p.Image, "took", took.Round(time.Millisecond))
		},
		Failed: func(img pinset.Image, f runtime.Fault, again time.Duration) {
			log.Warn("pull failed", "image", img, "class", f.Class, "error", f.Text, "again", again.Round(time.Millisecond))
		},
		Copied: func(images []pinset.Image) {
			log.Info("copied image volumes into CRI-O's own store", "images", len(images), "first", images[0])
		},
		Pruned: func(img pinset.Image) { log.Info("removed", "image", img) },
	}
}
