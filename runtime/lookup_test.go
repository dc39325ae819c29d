package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/bytesize"
)

// CRI-O may reach an image whose manifest pinbox-node cannot look up: by a proxy, or with credentials of its own.
// It gets one attempt in each pass, as the lookup has tried often, and only while the reserve is free.
func TestImageWhoseLookupFails(t *testing.T) {
	const lookup = "credentials: stat /no/such/file: no such file or directory"
	full := func(context.Context, string) error { return errors.New("no route to host") }
	for name, test := range map[string]struct {
		pull  func(context.Context, string) error
		free  int64
		pulls int
		class runtime.Class
		text  string
	}{
		"CRI-O reaches it":      {nil, 1 << 40, 1, "", ""},
		"CRI-O does not either": {full, 1 << 40, 1, runtime.Network, "no route to host"},
		"too little space":      {nil, 1 << 30, 0, runtime.Space, ""},
	} {
		t.Run(name, func(t *testing.T) {
			node := &fakeNode{server: &fakecri.Server{Pull: test.pull}, resolveErr: errors.New(lookup)}
			r := newReconciler(t, node, 1)
			node.space.Free, options(r).Limits.Reserve = test.free, bytesize.Reserve{Bytes: 16 << 30}
			s := runPass(t, r)
			if pulls, _ := node.server.Counts(); pulls != test.pulls || s.Degraded() != (test.class != "") ||
				s.Images[0].ErrorClass != test.class || !strings.Contains(s.Images[0].Error, test.text) {
				t.Errorf("got %d pulls, %+v, %v, want %d pulls, and an error %q with %q", pulls, s.Images, s.Errors, test.pulls,
					test.class, test.text)
			}
			if plan, err := r.Plan(t.Context()); test.pulls == 0 && (err != nil || len(plan.Unresolved) != 1 ||
				!strings.Contains(plan.Unresolved[node.sets[0].Images[0]].Text, lookup)) {
				t.Errorf("got the plan %+v, %v, want the error of the lookup", plan, err)
			}
		})
	}
}

// A pull of an unknown size ends when it takes the reserve.
func TestPullOfUnknownSizeLeavesTheReserve(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		node := &fakeNode{resolveErr: errors.New("no such host")}
		node.server = &fakecri.Server{Pull: func(ctx context.Context, _ string) error {
			node.mu.Lock()
			node.space = disk.Space{Total: 1 << 40, Free: 1 << 30}
			node.mu.Unlock()
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(10 * time.Second):
				return nil
			}
		}}
		r := newReconciler(t, node, 1)
		options(r).Limits.Reserve, options(r).Retry.Tries = bytesize.Reserve{Bytes: 16 << 30}, 1
		s := runPass(t, r)
		if s.Images[0].ErrorClass != runtime.Space || s.Images[0].State == runtime.Pinned {
			t.Errorf("got %+v, want the pull ended for lack of space", s.Images[0])
		}
	})
}
