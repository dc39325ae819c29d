package runtime_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
)

func TestRates(t *testing.T) {
	for text, want := range map[string]runtime.Rate{
		"0": 0, "1000": 1000, "20MB/s": 20_000_000, "512kB/s": 512_000, "1GB": 1_000_000_000, "20Mi": 20 << 20,
		"20MiB/s": 20 << 20, "1KiB/s": 1024,
	} {
		var got runtime.Rate
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "fast", "-1", "-1MB/s", "1.5MB/s", "20Mbit/s", "MB/s", "/s", "99999999999999GB/s"} {
		var got runtime.Rate
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: got %d, want an error", text, got)
		}
	}
}

// With a rate, one image is pulled at a time, and the next one begins when the bytes so far have taken their time.
func TestPullsKeepTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []time.Time
		running, most := 0, 0
		w := &fakeNode{}
		w.server = &fakecri.Server{Pull: func(context.Context, string) error {
			mu.Lock()
			defer mu.Unlock()
			begun = append(begun, time.Now())
			running++
			most = max(most, running)
			defer func() { running-- }()
			return nil
		}}
		r := newReconciler(t, w, 4) // of 1,000 bytes each
		options(r).Rate = 10_000
		if s := runPass(t, r); !s.Healthy() {
			t.Fatalf("got %s, want a healthy node", s.Summary())
		}
		if most != 1 || len(begun) != 4 {
			t.Fatalf("got %d pulls, %d at a time, want 4, one at a time", len(begun), most)
		}
		// The meter starts before the first pull, which may be late on a busy machine, so that the others follow it sooner.
		if took := begun[3].Sub(begun[0]); took < 200*time.Millisecond {
			t.Errorf("got the last of 4 pulls %v after the first, want about 300 ms", took)
		}
	})
}
