package cli

import (
	"fmt"
	"io"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
)

// bars are bars on a terminal, with the rate and the time that is left: of each stage, and below them of the layers
// that are being read.
type bars struct {
	pool    *mpb.Progress
	current stage
	bar     *mpb.Bar
	stages  int
	layers  map[string]*mpb.Bar
}

// maxLayers is how many layers are shown at a time, and leastLayer the size of the smallest one, in bytes: others are
// done before anybody has read their names.
const maxLayers, leastLayer = 5, 1 << 20

func newBars(w io.Writer) *bars {
	return &bars{
		pool: mpb.New(mpb.WithOutput(w), mpb.WithAutoRefresh(), mpb.WithWidth(40)), layers: map[string]*mpb.Bar{},
	}
}

func (b *bars) show(s stage) {
	if s.name != b.current.name {
		if b.bar != nil {
			b.bar.SetCurrent(b.current.total)
		}
		b.current, b.bar = s, nil
		if s.total > 0 {
			b.stages++
			b.bar = newBar(b.pool, s, b.stages)
		}
	}
	if b.bar != nil {
		b.bar.SetCurrent(s.done)
	}
}

// belowStages is the priority of the bars of layers.
const belowStages = 1000

// layer shows a layer as long as it is read.
func (b *bars) layer(name string, done, total int64, ended bool) {
	bar := b.layers[name]
	switch {
	case ended && bar != nil:
		bar.Abort(true)
		delete(b.layers, name)
	case bar != nil:
		bar.SetCurrent(min(done, total-1)) // it stays until the layer has ended
	case !ended && total >= leastLayer && len(b.layers) < maxLayers:
		s := stage{name: "  " + name, done: done, total: total}
		b.layers[name] = newBar(b.pool, s, belowStages)
	}
}

// note shows a line above the bars.
func (b *bars) note(line string) { fmt.Fprintln(b.pool, escape(line)) }

func (b *bars) close() {
	for _, bar := range b.layers { // of work that has failed
		bar.Abort(true)
	}
	if b.bar != nil {
		b.bar.Abort(false) // does nothing if the bar is complete
	}
	b.pool.Wait()
}

func newBar(pool *mpb.Progress, s stage, priority int) *mpb.Bar {
	counters, speed := decor.CountersKibiByte(" % .1f / % .1f "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f ")
	if s.items {
		counters, speed = decor.CountersNoUnit(" %d / %d "), decor.AverageSpeed(0, "%.0f/s ")
	}
	return pool.AddBar(s.total, mpb.BarPriority(priority),
		mpb.PrependDecorators(decor.Name(escape(s.name), decor.WC{W: 20, C: decor.DindentRight})),
		mpb.AppendDecorators(decor.Percentage(), counters, speed, decor.AverageETA(decor.ET_STYLE_GO)))
}
