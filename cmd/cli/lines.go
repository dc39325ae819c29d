package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
)

// lines are lines of progress: one at the start of a stage, one at its end if that is later than a pause, and one
// after each pause in between.
type lines struct {
	write   func(s stage, elapsed time.Duration)
	remark  func(line string)
	pause   time.Duration
	now     func() time.Time
	current string
	// begun is the time of the start of the stage, last that of the last line.
	begun, last time.Time
}

func (l *lines) show(s stage) {
	now := l.now()
	switch {
	case s.name != l.current:
		l.current, l.begun = s.name, now
	case now.Sub(l.last) < l.pause && (s.total == 0 || s.done < s.total || now.Sub(l.begun) < l.pause):
		return
	}
	l.last = now
	l.write(s, now.Sub(l.begun))
}

func (l *lines) note(line string) { l.remark(line) }

func (l *lines) close() {}

// speed returns what is done in a second, and the time that is left; 0 as long as they are unknown.
func (s stage) speed(elapsed time.Duration) (rate float64, left time.Duration) {
	if s.done == 0 || elapsed < time.Second {
		return 0, 0
	}
	rate = float64(s.done) / elapsed.Seconds()
	return rate, time.Duration(float64(s.total-s.done) / rate * float64(time.Second)).Round(time.Second)
}

// logPause is the time between two lines of a stage in a log.
const logPause = 10 * time.Second

func plainLines(w io.Writer, now func() time.Time) *lines {
	write := func(s stage, elapsed time.Duration) {
		rate, left := s.speed(elapsed)
		switch {
		case s.total == 0 && elapsed > 0:
			fmt.Fprintf(w, "%s: %s so far\n", s.name, elapsed.Round(time.Second))
		case s.done == 0 && elapsed == 0:
			fmt.Fprintf(w, "%s\n", s.name)
		case s.items:
			fmt.Fprintf(w, "%s: %d of %d, %s left\n", s.name, s.done, s.total, left)
		case rate == 0:
			fmt.Fprintf(w, "%s: %d%% of %s\n", s.name, s.done*100/s.total, bytesize.Format(s.total))
		default:
			fmt.Fprintf(w, "%s: %d%% of %s, %s/s, %s left\n", s.name, s.done*100/s.total, bytesize.Format(s.total),
				bytesize.Format(int64(rate)), left)
		}
	}
	return &lines{
		write: write, remark: func(line string) { fmt.Fprintln(w, line) }, pause: logPause, now: now,
	}
}

// Event is a line of progress in JSON: docs/progress.schema.json.
type Event struct {
	Stage string `json:"stage,omitempty"`
	Unit  string `json:"unit,omitempty"`
	Done  int64  `json:"done"`
	Total int64  `json:"total"`
	Rate  int64  `json:"rate,omitempty"`
	Left  int64  `json:"left,omitempty"`
}

// Remark is a line in JSON that says what happens: which request is repeated, and why.
type Remark struct {
	Note string `json:"note"`
}

func jsonLines(w io.Writer, pause time.Duration, now func() time.Time) *lines {
	enc := json.NewEncoder(w) // its reader may have gone
	write := func(s stage, elapsed time.Duration) {
		rate, left := s.speed(elapsed)
		e := Event{s.name, "bytes", s.done, s.total, int64(rate), int64(left.Seconds())}
		if s.items {
			e.Unit = "items"
		}
		_ = enc.Encode(e)
	}
	return &lines{write: write, remark: func(line string) { _ = enc.Encode(Remark{line}) }, pause: pause, now: now}
}
