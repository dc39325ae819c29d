package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/sys/unix"
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
			synctest.Test(t, func(*testing.T) { // which fails if something waits for ever
				b := newBars(new(bytes.Buffer))
				for _, s := range work {
					b.show(s)
				}
				b.close()
			})
		})
	}
}

// While layers are read, the bars show the larger ones of them, at most maxLayers at a time; one that has ended makes
// room for the next.
func TestBarsOfLayersInFlight(t *testing.T) {
	b := newBars(new(bytes.Buffer))
	b.show(stage{name: "read layers", total: 1 << 30})
	shown := func() string { return strings.Join(slices.Sorted(maps.Keys(b.layers)), " ") }
	b.layer("small", 10, leastLayer-1, false)
	b.layer("unknown", 10, -1, false)
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		b.layer(name, 10, leastLayer, false)
	}
	if got := shown(); got != "a b c d e" {
		t.Errorf("got the layers %q, want the first five", got)
	}
	b.layer("c", leastLayer, leastLayer, false) // read, and not yet packed
	if got := shown(); got != "a b c d e" || b.layers["c"].Completed() {
		t.Errorf("got the layers %q, want c until it has ended", got)
	}
	b.layer("c", leastLayer, leastLayer, true)
	b.layer("c", leastLayer, leastLayer, true) // nobody shows it
	b.layer("f", 20, leastLayer, false)
	if got := shown(); got != "a b d e f" {
		t.Errorf("got the layers %q, want f in the place of c", got)
	}
	b.close() // also if layers were left
}

// A log has a line at the start of a stage, one every 10 s, and one at the end if that is later.
func TestPlainProgress(t *testing.T) {
	for step, want := range map[time.Duration]string{
		time.Millisecond: "read layers\nwrite store\n",
		20 * time.Millisecond: "read layers\nread layers: 50% of 1000 KiB, 50 KiB/s, 10s left\n" +
			"read layers: 100% of 1000 KiB, 50 KiB/s, 0s left\nwrite store\n",
	} {
		t.Run(step.String(), func(t *testing.T) {
			var b bytes.Buffer
			clock := time.Now()
			l := plainLines(&b, func() time.Time { return clock })
			for n := range int64(1001) {
				l.show(stage{name: "read layers", done: n << 10, total: 1000 << 10})
				clock = clock.Add(step)
			}
			l.show(stage{name: "write store"})
			if b.String() != want {
				t.Errorf("got\n%s\nwant\n%s", b.String(), want)
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
			p := newProgress(&b, output, "auto", 0)
			p.Note(note)
			p.Close()
			if b.String() != want+"\n" {
				t.Errorf("got %q, want %q", b.String(), want+"\n")
			}
		})
	}
	var b bytes.Buffer
	synctest.Test(t, func(*testing.T) {
		drawn := newBars(&b)
		drawn.show(stage{name: "read layers", done: 500, total: 1000})
		drawn.note(note)
		time.Sleep(time.Second) // the bars are drawn several times
		drawn.close()
	})
	if strings.Count(b.String(), note+"\n") != 1 || !strings.Contains(b.String(), "read layers") {
		t.Errorf("bars: got %q, want one line of the note, and the stage", b.String())
	}
}

// What is done never decreases, also when a stage begins again: a damaged pack of the cache is made anew.
func TestProgressNeverGoesBack(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Dup(int(w.Fd())) // whoever starts the program hands it over
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(*testing.T) {
		p := newProgress(io.Discard, "", "none", descriptor(fd))
		done := p.Track("read the store")
		done(250, 1000)
		p.now.name = "" // another stage
		p.Begin("read the store", 1000)
		p.Add(100)
		time.Sleep(2 * fdPause) // its pauses
		p.Add(200)
		p.Note("a: asking b again")
		p.Close()
	})
	if err := errors.Join(w.Close(), unix.Close(fd)); err != nil {
		t.Fatal(err)
	}
	var got []int64
	notes := 0
	for lines := bufio.NewScanner(r); lines.Scan(); {
		checkEvent(t, lines.Bytes())
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.Stage == "" {
			notes++
			continue
		}
		got = append(got, e.Done)
	}
	if want := []int64{0, 300}; !slices.Equal(got, want) || notes != 1 {
		t.Errorf("got %v and %d notes, want %v and one", got, notes, want)
	}
}

// checkEvent compares a line with the published schema.
func checkEvent(t *testing.T, line []byte) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("../../docs/progress.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(line))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %v", line, err)
	}
}

func TestFormOfTheProgress(t *testing.T) {
	for _, test := range []struct {
		output Output
		how    form
		want   string
	}{
		{"text", "auto", "read layers\n"}, {"text", "none", ""},
		{"json", "auto", `{"stage":"read layers","unit":"bytes","done":0,"total":9}` + "\n"},
		{"json", "plain", "read layers\n"},
	} {
		var b bytes.Buffer
		p := newProgress(&b, test.output, test.how, 0)
		p.Begin("read layers", 9)
		p.Close()
		if b.String() != test.want {
			t.Errorf("--output %s --progress %s: got %q, want %q", test.output, test.how, b.String(), test.want)
		}
	}
}

func TestDescriptorOfTheProgress(t *testing.T) {
	for _, text := range []string{"0", "2", "-1", "999", "x"} {
		if err := new(descriptor).Set(text); err == nil {
			t.Errorf("--progress-fd %s: got no error, want one", text)
		}
	}
}
