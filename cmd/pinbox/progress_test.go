package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The bars once waited for ever for a stage that ended short of its total.
func TestBarsEndWithTheWork(t *testing.T) {
	for name, work := range map[string]func(show func(string, int64, int64)){
		"nothing shown": func(func(string, int64, int64)) {},
		"all stages": func(show func(string, int64, int64)) {
			show("resolve images", 0, 5)
			show("resolve images", 5, 5)
			show("read layers", 0, 1000)
			show("read layers", 910, 1000)
			show("write store", 0, 0)
		},
		"failed half-way": func(show func(string, int64, int64)) { show("read layers", 500, 1000) },
	} {
		ended := make(chan struct{})
		go func() {
			show, _, finish := bars(new(bytes.Buffer))
			work(show)
			finish()
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: the bars go on", name)
		}
	}
}

func TestPlainProgressIsALineEveryTenthOfALongWay(t *testing.T) {
	for step, want := range map[time.Duration]int{10 * time.Millisecond: 1 + 5, time.Second: 1 + 10, 0: 1} {
		var b bytes.Buffer
		clock := time.Now()
		show := plainLines(&b, func() time.Time { return clock })
		for done := range int64(1001) {
			show("read layers", done, 1000)
			clock = clock.Add(step)
		}
		show("write store", 0, 0)
		if lines := strings.Count(b.String(), "\n"); lines != want+1 {
			t.Errorf("%v a step: %d lines:\n%s", step, lines, b.String())
		}
	}
}

// Whoever waited for a registry that stalls saw nothing move, and was told nothing for up to
// 15 minutes.
func TestProgressSaysThatARegistryIsAskedAgain(t *testing.T) {
	for output, want := range map[string]string{"text": "a: asking b again\n", "json": `{"note":"a: asking b again"}` + "\n"} {
		var b bytes.Buffer
		p := newProgress(&b, output)
		p.hooks().Again("a: asking b again")
		p.close()
		if b.String() != want {
			t.Errorf("%s: %q, not %q", output, b.String(), want)
		}
	}
	var b bytes.Buffer
	show, say, finish := bars(&b)
	show("read layers", 500, 1000)
	say("a: asking b again")
	time.Sleep(time.Second) // the bars are drawn several times
	finish()
	if strings.Count(b.String(), "a: asking b again\n") != 1 || !strings.Contains(b.String(), "read layers") {
		t.Errorf("bars: %q", b.String())
	}
}
