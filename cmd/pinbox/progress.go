package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	hooks "github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/pinset"
)

// progress shows how far the work is: bars on a terminal, a line every tenth of
// a long way elsewhere, JSON lines for programs.
type progress struct {
	mu          sync.Mutex
	show        func(stage string, done, total int64)
	say         func(line string)
	finish      func()
	stage       string
	done, total int64
}

func newProgress(w io.Writer, output string) *progress {
	p := &progress{finish: func() {}, say: func(line string) { fmt.Fprintln(w, line) }}
	f, ok := w.(*os.File)
	switch {
	case output == "json":
		p.show, p.say = jsonLines(w)
	case ok && isatty.IsTerminal(f.Fd()):
		p.show, p.say, p.finish = bars(w)
	default:
		p.show = plainLines(w, time.Now)
	}
	return p
}

func (p *progress) hooks() hooks.Hooks {
	return hooks.Hooks{
		Resolving: func(n int) { p.begin("resolve images", int64(n)) },
		Resolved:  func(pinset.Image) { p.add(1) },
		Filling:   func(t pinset.Totals) { p.begin("read layers", t.Bytes) },
		Read:      func(n int) { p.add(int64(n)) },
		Step:      p.begin,
		Done:      func(n int) { p.add(int64(n)) },
		Again:     p.note,
	}
}

func (p *progress) note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.say(line)
}

func (p *progress) begin(stage string, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stage, p.done, p.total = stage, 0, total
	p.show(stage, 0, total)
}

func (p *progress) add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.done = min(p.done+n, p.total)
	p.show(p.stage, p.done, p.total)
}

func (p *progress) close() { p.finish() }

// tenths calls show at the start of a stage and at every tenth of it.
func tenths(now func() time.Time, show func(stage string, done, total int64, elapsed time.Duration)) func(string, int64, int64) {
	var current string
	var next int64
	var started time.Time
	return func(stage string, done, total int64) {
		if stage != current {
			current, next, started = stage, 0, now()
		}
		if total == 0 || done*10 >= next*total {
			next = 1
			if total > 0 {
				next = done*10/total + 1
			}
			show(stage, done, total, now().Sub(started))
		}
	}
}

// pause is between two lines of a stage: short ones have one line.
const pause = 2 * time.Second

func plainLines(w io.Writer, now func() time.Time) func(string, int64, int64) {
	var last time.Time
	return tenths(now, func(stage string, done, total int64, elapsed time.Duration) {
		switch {
		case done == 0:
			fmt.Fprintf(w, "%s\n", stage)
			last = now()
		case now().Sub(last) < pause:
		case done < total:
			left := time.Duration(float64(elapsed) / float64(done) * float64(total-done))
			fmt.Fprintf(w, "%s: %d%%, %s left\n", stage, done*100/total, left.Round(time.Second))
			last = now()
		default:
			fmt.Fprintf(w, "%s: %d%%\n", stage, done*100/total)
		}
	})
}

func jsonLines(w io.Writer) (show func(string, int64, int64), say func(string)) {
	enc := json.NewEncoder(w)
	show = tenths(time.Now, func(stage string, done, total int64, _ time.Duration) {
		_ = enc.Encode(struct { // nobody may be reading
			Stage string `json:"stage"`
			Done  int64  `json:"done"`
			Total int64  `json:"total"`
		}{stage, done, total})
	})
	return show, func(line string) {
		_ = enc.Encode(struct { // likewise
			Note string `json:"note"`
		}{line})
	}
}

func bars(w io.Writer) (show func(string, int64, int64), say func(string), finish func()) {
	pool := mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithWidth(40))
	var current string
	var bar *mpb.Bar
	var end int64
	show = func(stage string, done, total int64) {
		if stage != current {
			if bar != nil {
				bar.SetCurrent(end)
			}
			current, end, bar = stage, total, nil
			if total > 0 {
				bar = newBar(pool, stage, total)
			}
		}
		if bar != nil {
			bar.SetCurrent(done)
		}
	}
	say = func(line string) { fmt.Fprintln(pool, line) } // above the bars
	return show, say, func() {
		if bar != nil {
			bar.Abort(false) // unless it has come to its end
		}
		pool.Wait()
	}
}

func newBar(pool *mpb.Progress, stage string, total int64) *mpb.Bar {
	counters := decor.CountersNoUnit(" %d / %d")
	if !strings.HasPrefix(stage, "resolve ") {
		counters = decor.CountersKiloByte(" % .1f / % .1f")
	}
	return pool.AddBar(total,
		mpb.PrependDecorators(decor.Name(stage, decor.WC{W: 20, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(), counters, decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
}
