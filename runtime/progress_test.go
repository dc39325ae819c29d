package runtime

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/storage/pinset"
)

// fakeDisk is a disk with these numbers.
type fakeDisk struct {
	Disk
	free, staged int64
	err          error
}

func (g *fakeDisk) Space(string) (store, staging disk.Space, err error) {
	return disk.Space{Free: g.free}, disk.Space{}, g.err
}

func (g *fakeDisk) Staged() int64 { return g.staged }

// Bytes have arrived if the staged bytes change, or the store grows as fast as a layer is unpacked.
func TestMeterDetectsProgress(t *testing.T) {
	for name, test := range map[string]struct {
		grown, staged int64
		err           error
		moved         bool
	}{
		"nothing":            {0, 0, nil, false},
		"logs":               {unpacking - 1, 0, nil, false},
		"a layer":            {unpacking, 0, nil, true},
		"staged bytes":       {0, 1, nil, true},
		"fewer staged bytes": {0, -1, nil, true},
		"unknown space":      {unpacking, 0, errors.New("text"), false},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDisk{free: 10*unpacking - test.grown, staged: 100 + test.staged, err: test.err}
			m := meter{disk: d, free: 10 * unpacking, staged: 100}
			m.measure()
			if got := !m.moved.IsZero(); got != test.moved {
				t.Errorf("got moved %v, want %v", got, test.moved)
			}
		})
	}
}

// Staged bytes of earlier pulls do not count as progress.
func TestMeterWithoutEarlierBytes(t *testing.T) {
	d := &fakeDisk{staged: 100}
	m := meter{disk: d, base: 100}
	for _, step := range []struct{ staged, want int64 }{{100, 0}, {130, 30}, {40, 0}, {50, 10}} { // 40: they were removed
		d.staged = step.staged
		if got := m.measure(); got != step.want {
			t.Errorf("%d bytes are staged: got %d, want %d", step.staged, got, step.want)
		}
	}
}

// failingManifests returns an error for every request for a manifest, and counts the requests.
type failingManifests struct {
	sync.Mutex
	err      error
	requests map[string]int
}

func (r *failingManifests) Resolve(_ context.Context, img pinset.Image) (pinset.LockedImage, error) {
	r.Lock()
	defer r.Unlock()
	r.requests[img.String()]++
	return pinset.LockedImage{}, r.err
}

func (r *failingManifests) Forget() {}

// A request with a transient error is made Retry.Tries times, but only once to a host that did not
// answer requests for another image.
func TestManifestRequestsAreRetriedByClass(t *testing.T) {
	a, b := image("a"), image("b")
	for text, want := range map[string][2]int{
		"dial tcp 10.0.0.1:5000: connection refused": {3, 1},
		"an error that has no class":                 {3, 3},
		"unauthorized: authentication required":      {1, 1},
	} {
		t.Run(strings.Fields(text)[0], func(t *testing.T) {
			m := &failingManifests{err: errors.New(text), requests: map[string]int{}}
			r := resolver{manifests: m, retry: Retry{Tries: 3, First: time.Nanosecond}, timeout: time.Minute}
			var unreachable sync.Map
			for _, img := range []pinset.Image{a, b} {
				if _, err := r.manifest(t.Context(), img, &unreachable); !errors.Is(err, m.err) {
					t.Errorf("got %v, want %v", err, m.err)
				}
			}
			if got := [2]int{m.requests[a.String()], m.requests[b.String()]}; got != want {
				t.Errorf("got %v requests, want %v", got, want)
			}
		})
	}
}

// The condition of changed sets depends on the owner of the drop-in.
func TestPendingCondition(t *testing.T) {
	for owner, want := range map[Owner]string{
		MCO: "The Machine Config Operator has not pinned all images yet", Pinbox: "The sets have changed since the last pass",
	} {
		r := testReport(map[pinset.Image]bool{}, set("s", image("a")))
		r.pending, r.owner = true, owner
		if got := r.conditions(Status{}, Status{}, time.Now())[0]; got.Message != want || got.Status != "False" {
			t.Errorf("%v: got %+v, want the message %q", owner, got, want)
		}
	}
}
