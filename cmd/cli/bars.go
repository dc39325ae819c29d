package cli

import (
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bars are bars on a terminal, with the rate and the time that is left.
type bars struct {
	pool    *mpb.Progress
	current stage
	bar     *mpb.Bar
}

func newBars(w io.Writer) *bars {
	return &bars{pool: mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithWidth(40))}
}

func (b *bars) show(s stage) {
	if s.name != b.current.name {
		if b.bar != nil {
			b.bar.SetCurrent(b.current.total)
		}
		b.current, b.bar = s, nil
		if s.total > 0 {
			b.bar = newBar(b.pool, s)
		}
	}
	if b.bar != nil {
		b.bar.SetCurrent(s.done)
	}
}

// note shows a line above the bars.
func (b *bars) note(line string) { fmt.Fprintln(b.pool, escape(line)) }

func (b *bars) close() {
	if b.bar != nil {
		b.bar.Abort(false) // does nothing if the bar is complete
	}
	b.pool.Wait()
}

func newBar(pool *mpb.Progress, s stage) *mpb.Bar {
	counters, speed := decor.CountersKibiByte(" % .1f / % .1f "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f ")
	if s.items {
		counters, speed = decor.CountersNoUnit(" %d / %d "), decor.AverageSpeed(0, "%.0f/s ")
	}
	return pool.AddBar(s.total,
		mpb.PrependDecorators(decor.Name(escape(s.name), decor.WC{W: 20, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(), counters, speed, decor.AverageETA(decor.ET_STYLE_GO)))
}
