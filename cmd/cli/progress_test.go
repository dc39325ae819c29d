package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The bars waited endlessly for a stage that ended before its total.
func TestBarsEndWithTheWork(t *testing.T) {
	for name, work := range map[string][]stage{
		"nothing shown": nil,
		"all stages": {
			{name: "resolve images", total: 5, items: true},
			{name: "resolve images", done: 5, total: 5, items: true},
			{name: "read layers", total: 1000},
			{name: "read layers", done: 910, total: 1000},
			{name: "write store"},
		},
		"failed half-way": {{name: "read layers", done: 500, total: 1000}},
	} {
		t.Run(name, func(t *testing.T) {
			ended := make(chan struct{})
			go func() {
				show, _, finish := bars(new(bytes.Buffer))
				for _, s := range work {
					show(s)
				}
				finish()
				close(ended)
			}()
			select {
			case <-ended:
			case <-time.After(10 * time.Second):
				t.Fatal("got bars after 10 s, want their end")
			}
		})
	}
}

func TestPlainProgressHasALineForEachTenthOfALongStage(t *testing.T) {
	for step, want := range map[time.Duration]int{10 * time.Millisecond: 1 + 5, time.Second: 1 + 10, 0: 1} {
		t.Run(step.String(), func(t *testing.T) {
			var b bytes.Buffer
			clock := time.Now()
			show := plainLines(&b, func() time.Time { return clock })
			for done := range int64(1001) {
				show(stage{name: "read layers", done: done, total: 1000})
				clock = clock.Add(step)
			}
			show(stage{name: "write store"})
			if lines := strings.Count(b.String(), "\n"); lines != want+1 {
				t.Errorf("got %d lines, want %d:\n%s", lines, want+1, b.String())
			}
		})
	}
}

// While a registry stalled, nothing was shown for up to 15 minutes.
func TestProgressShowsThatARequestIsRepeated(t *testing.T) {
	const note, object = "a: asking b again", `{"note":"a: asking b again"}`
	for output, want := range map[Output]string{"text": note, "json": object, "yaml": object} {
		t.Run(string(output), func(t *testing.T) {
			var b bytes.Buffer
			p := NewProgress(&b, output)
			p.Note(note)
			p.Close()
			if b.String() != want+"\n" {
				t.Errorf("got %q, want %q", b.String(), want+"\n")
			}
		})
	}
	var b bytes.Buffer
	show, addNote, finish := bars(&b)
	show(stage{name: "read layers", done: 500, total: 1000})
	addNote(note)
	time.Sleep(time.Second) // the bars are drawn several times
	finish()
	if strings.Count(b.String(), note+"\n") != 1 || !strings.Contains(b.String(), "read layers") {
		t.Errorf("bars: got %q, want one line of the note, and the stage", b.String())
	}
}

func TestTrackedStage(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, "json")
	done := p.Track("read the store")
	for n := int64(0); n <= 1000; n += 250 {
		done(n, 1000)
	}
	const want = `{"stage":"read the store","done":0,"total":1000}
{"stage":"read the store","done":250,"total":1000}
{"stage":"read the store","done":500,"total":1000}
{"stage":"read the store","done":750,"total":1000}
{"stage":"read the store","done":1000,"total":1000}
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
}
