package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// Progress shows the progress of the work: bars on a terminal, else a line for every tenth of a
// long stage, JSON lines for programs.
type Progress struct {
	mu     sync.Mutex
	show   func(stage)
	note   func(line string)
	finish func()
	now    stage
}

// stage is a part of the work, with the bytes or items done.
type stage struct {
	name        string
	done, total int64
	items       bool
}

// NewProgress shows progress on stderr: in JSON if the result is not text.
func NewProgress(stderr io.Writer, output Output) *Progress {
	p := &Progress{finish: func() {}, note: func(line string) { fmt.Fprintln(stderr, line) }}
	f := terminal(stderr)
	switch {
	case !output.Text():
		p.show, p.note = jsonLines(stderr)
	case f != nil:
		p.show, p.note, p.finish = bars(f) // which move the cursor by escapes
	default:
		p.show = plainLines(stderr, time.Now)
	}
	return p
}

// Note shows a line.
func (p *Progress) Note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.note(line)
}

// Begin starts a stage of so many bytes; 0 means that the number is not known.
func (p *Progress) Begin(name string, bytes int64) { p.begin(stage{name: name, total: bytes}) }

// Count starts a stage of so many items.
func (p *Progress) Count(name string, items int64) {
	p.begin(stage{name: name, total: items, items: true})
}

func (p *Progress) begin(s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
	p.show(s)
}

// Add adds to the bytes or items of the stage that are done.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.done = min(p.now.done+n, p.now.total)
	p.show(p.now)
}

// Track returns a callback for a stage that reports its total of bytes with each call.
func (p *Progress) Track(name string) func(done, all int64) {
	return func(done, all int64) {
		if p.now.name != name {
			p.Begin(name, all)
		}
		p.Add(done - p.now.done)
	}
}

// Close ends the bars.
func (p *Progress) Close() { p.finish() }

// tenths calls show at the start of a stage and at every tenth of it.
func tenths(now func() time.Time, show func(s stage, elapsed time.Duration)) func(stage) {
	var current string
	var next int64
	var started time.Time
	return func(s stage) {
		if s.name != current {
			current, next, started = s.name, 0, now()
		}
		if s.total == 0 || s.done*10 >= next*s.total {
			next = 1
			if s.total > 0 {
				next = s.done*10/s.total + 1
			}
			show(s, now().Sub(started))
		}
	}
}

// pause is the least time between two lines of a stage. A shorter stage has one line.
const pause = 2 * time.Second

func plainLines(w io.Writer, now func() time.Time) func(stage) {
	var last time.Time
	return tenths(now, func(s stage, elapsed time.Duration) {
		switch {
		case s.done == 0:
			fmt.Fprintf(w, "%s\n", s.name)
			last = now()
		case now().Sub(last) < pause:
		case s.done < s.total:
			left := time.Duration(float64(elapsed) / float64(s.done) * float64(s.total-s.done))
			fmt.Fprintf(w, "%s: %d%%, %s left\n", s.name, s.done*100/s.total, left.Round(time.Second))
			last = now()
		default:
			fmt.Fprintf(w, "%s: %d%%\n", s.name, s.done*100/s.total)
		}
	})
}

func jsonLines(w io.Writer) (show func(stage), note func(string)) {
	enc := json.NewEncoder(w)
	show = tenths(time.Now, func(s stage, _ time.Duration) {
		_ = enc.Encode(struct { // stderr may be closed
			Stage string `json:"stage"`
			Done  int64  `json:"done"`
			Total int64  `json:"total"`
		}{s.name, s.done, s.total})
	})
	return show, func(line string) {
		_ = enc.Encode(struct { // stderr may be closed
			Note string `json:"note"`
		}{line})
	}
}

func bars(w io.Writer) (show func(stage), note func(string), finish func()) {
	pool := mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithWidth(40))
	var current stage
	var bar *mpb.Bar
	show = func(s stage) {
		if s.name != current.name {
			if bar != nil {
				bar.SetCurrent(current.total)
			}
			current, bar = s, nil
			if s.total > 0 {
				bar = newBar(pool, s)
			}
		}
		if bar != nil {
			bar.SetCurrent(s.done)
		}
	}
	note = func(line string) { fmt.Fprintln(pool, escape(line)) } // above the bars
	return show, note, func() {
		if bar != nil {
			bar.Abort(false) // does nothing if the bar is complete
		}
		pool.Wait()
	}
}

func newBar(pool *mpb.Progress, s stage) *mpb.Bar {
	counters := decor.CountersKibiByte(" % .1f / % .1f")
	if s.items {
		counters = decor.CountersNoUnit(" %d / %d")
	}
	return pool.AddBar(s.total,
		mpb.PrependDecorators(decor.Name(escape(s.name), decor.WC{W: 20, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(), counters, decor.Name(" "), decor.AverageETA(decor.ET_STYLE_GO)))
}
