package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/download"
)

// Retry sets how often a failed pull is tried, and how long to wait between two attempts: from
// First, doubling, up to Longest.
type Retry struct {
	First, Longest time.Duration
	Tries          int
}

// after is how long to wait after so many attempts. Half of it is random, so that a thousand
// nodes do not send requests to a registry at the same time.
func (r Retry) after(tries int) time.Duration {
	d := r.First
	for range tries - 1 {
		d = min(2*d, r.Longest)
	}
	return d/2 + rand.N(d/2+1)
}

// job is an image to pull.
type job struct {
	Pull
	tries   int
	due     time.Time // not before
	started time.Time
	cancel  context.CancelCauseFunc
}

// result of one attempt.
type result struct {
	*job
	err error
}

// queue pulls images. One goroutine owns it; each attempt has its own.
type queue struct {
	pass    *pass
	o       Options
	root    string
	rep     *report
	waiting []*job
	running []*job
	results chan result
	// pulled are the blobs that were pulled since the pass began.
	pulled map[digest.Digest]bool
	meter  meter
	full   error // the lack of space for which the queue stopped
}

// pull fetches the missing images. Errors of single images are faults of the report, and do
// not stop the others; the error is of the queue itself.
func (p *pass) pull(ctx context.Context, root string) error {
	rep, disk := &p.rep, p.conf.Disk
	q := queue{
		pass: p, o: p.conf.Options, root: root, rep: rep, results: make(chan result), pulled: map[digest.Digest]bool{},
	}
	for _, pull := range rep.pulls {
		j := &job{Pull: pull}
		if pull.unknown {
			j.tries = q.o.Retry.Tries - 1 // the lookup has tried as often as a pull
		}
		q.waiting = append(q.waiting, j)
	}
	need, _ := totalNeed(rep.pulls, 0)
	rep.progress = &Progress{OfImages: len(rep.pulls), OfBytes: need.Fetch}
	q.meter = meter{disk: disk, root: root, base: disk.Staged(), start: time.Now(), moved: time.Now()}
	return q.run(ctx)
}

func (q *queue) run(ctx context.Context) error {
	tick := time.NewTicker(min(q.o.PublishInterval, max(q.o.Stall/4, time.Millisecond)))
	defer tick.Stop()
	if err := q.pass.publish(); err != nil {
		return err
	}
	for {
		wait := q.start(ctx)
		if len(q.running) == 0 && (len(q.waiting) == 0 || q.full != nil || ctx.Err() != nil) {
			return q.full
		}
		select {
		case res := <-q.results:
			q.finishAttempt(ctx, res)
		case <-time.After(wait):
			continue
		case <-tick.C:
			q.watch()
		}
		if ctx.Err() != nil {
			continue
		}
		if err := q.pass.publish(); err != nil {
			return q.cancelPulls(err)
		}
	}
}

// start starts the pulls that are due and fit, and returns the time until more are due.
func (q *queue) start(ctx context.Context) time.Duration {
	for len(q.running) < q.o.Parallel && q.full == nil && ctx.Err() == nil && q.pace() <= 0 {
		i := slices.IndexFunc(q.waiting, func(j *job) bool { return !time.Now().Before(j.due) && !q.layerIsPulled(j) })
		if i < 0 {
			break
		}
		j := q.waiting[i]
		if err := q.checkSpace(j); err != nil {
			if len(q.running) == 0 { // else wait: the running pulls may take less than estimated
				q.stop(err)
			}
			break
		}
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.launch(ctx, j)
	}
	wait := time.Hour
	if len(q.running) < q.o.Parallel {
		for _, j := range q.waiting {
			if !q.layerIsPulled(j) {
				wait = min(wait, max(time.Until(j.due), q.pace(), 50*time.Millisecond))
			}
		}
	}
	return wait
}

// layerIsPulled reports that a running pull fetches a layer that this one needs, too. This one
// waits, since CRI-O would fetch the layer twice.
func (q *queue) layerIsPulled(next *job) bool {
	return slices.ContainsFunc(q.running, func(j *job) bool {
		for blob := range next.absent {
			if _, shared := j.absent[blob]; shared && !q.pulled[blob] {
				return true
			}
		}
		return false
	})
}

// expected returns the bytes that a pull still has to fetch.
func (q *queue) expected(j *job) (bytes int64) {
	for blob, size := range j.absent {
		if !q.pulled[blob] {
			bytes += size
		}
	}
	return bytes
}

// checkSpace checks the space again, since other programs use the disk, too.
func (q *queue) checkSpace(next *job) error {
	all := []Pull{next.Pull}
	for _, j := range q.running {
		all = append(all, j.Pull)
	}
	return q.pass.space(q.root).check(all)
}

func (q *queue) launch(ctx context.Context, j *job) {
	ctx, j.cancel = context.WithCancelCause(ctx)
	j.tries++
	j.started = time.Now()
	if len(q.running) == 0 {
		q.meter.moved = time.Now()
	}
	q.running = append(q.running, j)
	q.rep.running[j.Image] = true
	go func() {
		err := q.pass.r.Images.Pull(ctx, j.Image)
		if cause := context.Cause(ctx); err != nil && (errors.Is(cause, download.ErrStalled) || errors.Is(cause, ErrSpace)) {
			err = cause
		}
		j.cancel(nil)
		q.results <- result{j, err}
	}()
}

// finishAttempt records the result of an attempt.
func (q *queue) finishAttempt(ctx context.Context, res result) {
	q.running = slices.DeleteFunc(q.running, func(j *job) bool { return j == res.job })
	delete(q.rep.running, res.Image)
	if ctx.Err() != nil {
		return
	}
	if res.err == nil {
		delete(q.rep.faults, res.Image)
		q.rep.present[res.Image.String()] = true // it was pinned before the pull; the last list checks that
		q.rep.done++
		q.rep.progress.Images++
		q.meter.finished += q.expected(res.job)
		q.rep.totals.PulledBytes += q.expected(res.job)
		for blob := range res.absent {
			q.pulled[blob] = true
		}
		q.pass.log.Info("pulled", "image", res.Image, "took", time.Since(res.started).Round(time.Millisecond))
		return
	}
	f, wait := faultOf(res.err), time.Duration(0)
	q.rep.faults[res.Image] = f
	q.rep.totals.failed(f.Class)
	switch {
	case f.Class == Space:
		q.stop(spaceError("Pulling the images on %s stopped, since there is no space left in %s: %s", q.o.Node,
			q.root, f.Text))
	case f.Class.Transient() && res.tries < q.o.Retry.Tries && q.full == nil:
		wait = q.o.Retry.after(res.tries)
		res.due = time.Now().Add(wait)
		q.waiting = append(q.waiting, res.job)
	}
	q.pass.log.Warn("pull failed", "image", res.Image, "class", f.Class, "error", f.Text, "again",
		wait.Round(time.Millisecond))
}

// stop ends the queue for lack of space. Running pulls continue.
func (q *queue) stop(err error) {
	q.full = err
	for _, j := range q.waiting {
		if _, failed := q.rep.faults[j.Image]; !failed {
			q.rep.faults[j.Image] = Fault{Space, "not pulled, as there is too little space"}
		}
	}
}

// watch measures the progress, and restarts pulls when nothing arrives any more.
func (q *queue) watch() {
	var expected int64
	for _, j := range q.running {
		expected += q.expected(j)
	}
	staged := q.meter.measure()
	q.rep.progress.Bytes = min(q.meter.finished+min(staged, expected), q.rep.progress.OfBytes)
	q.rep.progress.ETA = q.meter.eta(q.rep.progress)
	if err := q.pass.space(q.root).check([]Pull{{}}); errors.Is(err, ErrSpace) {
		for _, j := range q.running {
			if j.unknown { // others were checked before they began
				j.cancel(err)
			}
		}
	}
	if time.Since(q.meter.moved) < q.o.Stall {
		return
	}
	for _, j := range q.running {
		if time.Since(j.started) >= q.o.Stall { // it is unknown which of them stalls
			j.cancel(fmt.Errorf("the registry stalls: %w", download.ErrStalled))
		}
	}
}

// cancelPulls cancels the running pulls.
func (q *queue) cancelPulls(err error) error {
	for _, j := range q.running {
		j.cancel(err)
	}
	for range q.running {
		<-q.results
	}
	return err
}

// meter measures the progress of pulls: by the staging folder, and by the store while a layer is
// unpacked, since CRI does not report either.
type meter struct {
	disk     Disk
	root     string
	base     int64 // staged bytes of earlier pulls
	staged   int64
	free     int64 // bytes in the store
	finished int64
	start    time.Time
	moved    time.Time // when bytes last arrived
}

// unpacking is the least growth of the store, in bytes, between two ticks while a layer is
// unpacked; the logs of a node grow less.
const unpacking = 1 << 20

func (m *meter) measure() int64 {
	store, _, err := m.disk.Space(m.root)
	staged := m.disk.Staged()
	if staged != m.staged || err == nil && m.free-store.Free >= unpacking {
		m.moved = time.Now()
	}
	m.staged, m.free = staged, store.Free
	m.base = min(m.base, staged)
	return staged - m.base
}

// eta is the time when the pulls are done at the speed so far.
func (m *meter) eta(p *Progress) time.Time {
	took := time.Since(m.start)
	if p.Bytes == 0 || took < time.Second {
		return time.Time{}
	}
	rest := float64(p.OfBytes-p.Bytes) / float64(p.Bytes)
	return time.Now().Add(time.Duration(rest * float64(took))).UTC().Truncate(time.Second)
}
