package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
)

// Progress shows the progress of the work on stderr, in the form that --progress says, and as JSON lines on the file
// descriptor of --progress-fd.
type Progress struct {
	mu    sync.Mutex
	views []view
	now   stage
	// most is what was shown of each stage: a stage that begins again does not go back.
	most  map[string]int64
	ended chan struct{}
}

// view is a form of progress.
type view interface {
	show(stage)
	note(line string)
	close()
}

// inFlight is a view that also shows the parts of a stage that are under way.
type inFlight interface {
	layer(name string, done, total int64, ended bool)
}

// stage is a part of the work, with the bytes or items done.
type stage struct {
	name        string
	done, total int64
	items       bool
}

// form is the value of --progress.
type form string

var forms = []string{"auto", "bars", "plain", "json", "none"}

func (f *form) String() string { return string(*f) }

// Set implements pflag.Value.
func (f *form) Set(word string) error {
	if !slices.Contains(forms, word) {
		return errors.New("want " + strings.Join(forms, ", "))
	}
	*f = form(word)
	return nil
}

// Type implements pflag.Value.
func (f *form) Type() string { return "form" }

// descriptor is the value of --progress-fd; 0 is none.
type descriptor int

func (d *descriptor) String() string { return strconv.Itoa(int(*d)) }

// Set implements pflag.Value.
func (d *descriptor) Set(text string) error {
	n, err := strconv.Atoi(text)
	if err != nil || n < 3 {
		return errors.New("want the number of an open file descriptor, from 3")
	}
	if err := unix.Fstat(n, new(unix.Stat_t)); err != nil {
		return fmt.Errorf("it is not open: %w", err)
	}
	*d = descriptor(n)
	return nil
}

// Type implements pflag.Value.
func (d *descriptor) Type() string { return "number" }

// AddProgress adds the flags of a command that takes long: --quiet, --progress and --progress-fd.
func AddProgress(cmd *cobra.Command) {
	how, fd := form("auto"), descriptor(0)
	flags := cmd.Flags()
	flags.BoolP("quiet", "q", false, "show no progress: the same as --progress none")
	flags.Var(&how, "progress", "`FORM` of the progress: bars, plain (a line every 10 s), json, none, or auto: "+
		"bars on a terminal, json with --output json, else plain")
	Words(flags, "progress", forms...)
	cmd.MarkFlagsMutuallyExclusive("quiet", "progress")
	flags.Var(&fd, "progress-fd", "`NUMBER` of an open file descriptor for the progress as lines of JSON")
	Under("Output", flags)
}

// fdPause is the time between two lines of a stage on a file descriptor: a program draws bars of them.
const fdPause = 200 * time.Millisecond

// NewProgress shows the progress of a command with the flags of AddProgress.
func NewProgress(cmd *cobra.Command, output Output) *Progress {
	how, fd := form("auto"), descriptor(0)
	if f, ok := flagValue(cmd, "progress").(*form); ok {
		how = *f
	}
	if d, ok := flagValue(cmd, "progress-fd").(*descriptor); ok {
		fd = *d
	}
	if quiet := cmd.Flags().Lookup("quiet"); quiet != nil && quiet.Value.String() == "true" {
		how = "none"
	}
	return newProgress(cmd.ErrOrStderr(), output, how, fd)
}

func flagValue(cmd *cobra.Command, name string) any {
	if f := cmd.Flags().Lookup(name); f != nil {
		return f.Value
	}
	return nil
}

func newProgress(stderr io.Writer, output Output, how form, fd descriptor) *Progress {
	p := &Progress{most: map[string]int64{}, ended: make(chan struct{})}
	if how == "auto" {
		switch {
		case !output.Text():
			how = "json"
		case terminal(stderr) != nil:
			how = "bars"
		}
	}
	switch how {
	case "none":
	case "json":
		p.views = append(p.views, jsonLines(stderr, logPause, time.Now))
	case "bars":
		p.views = append(p.views, newBars(raw(stderr))) // bars move the cursor by escapes
	default:
		p.views = append(p.views, plainLines(stderr, time.Now))
	}
	if fd > 0 {
		p.views = append(p.views, jsonLines(os.NewFile(uintptr(fd), "progress"), fdPause, time.Now))
	}
	go p.remind(time.NewTicker(logPause))
	return p
}

// remind shows the stage again in each interval, also while nothing is done.
func (p *Progress) remind(ticker *time.Ticker) {
	defer ticker.Stop()
	for {
		select {
		case <-p.ended:
			return
		case <-ticker.C:
			p.mu.Lock()
			if p.now.name != "" {
				p.show()
			}
			p.mu.Unlock()
		}
	}
}

// Note shows a line.
func (p *Progress) Note(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.views {
		v.note(line)
	}
}

// Begin starts a stage of so many bytes; 0 means that the number is not known.
func (p *Progress) Begin(name string, bytes int64) { p.begin(stage{name: name, total: bytes}) }

// Count starts a stage of so many items.
func (p *Progress) Count(name string, items int64) {
	p.begin(stage{name: name, total: items, items: true})
}

// Layer shows a layer that is being read, or that no more of it is read.
func (p *Progress) Layer(name string, done, total int64, ended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.views {
		if v, ok := v.(inFlight); ok {
			v.layer(name, done, total, ended)
		}
	}
}

func (p *Progress) begin(s stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = s
	p.show()
}

// Add adds to the bytes or items of the stage that are done.
func (p *Progress) Add(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now.done = min(p.now.done+n, p.now.total)
	p.show()
}

// show shows the stage; p.mu is locked.
func (p *Progress) show() {
	s := p.now
	s.done = min(max(s.done, p.most[s.name]), s.total)
	p.most[s.name] = s.done
	for _, v := range p.views {
		v.show(s)
	}
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
func (p *Progress) Close() {
	close(p.ended)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, v := range p.views {
		v.close()
	}
}
