package runtime_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
)

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
