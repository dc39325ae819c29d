package runtime_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/pinset"
)

// slowCRIO applies the pins only after so many lists.
type slowCRIO struct {
	*recordingNode
	lists, slow int
}

func (c *slowCRIO) List(ctx context.Context) ([]pinset.StoredImage, error) {
	all, err := c.recordingNode.List(ctx)
	c.lists++
	for i := range all {
		all[i].Pinned = all[i].Pinned && c.lists > c.slow
	}
	return all, err
}

// CRI-O reloads in the background: the pass waits until the pins are applied.
func TestPassWaitsForPins(t *testing.T) {
	for name, stored := range map[string]bool{"after a reload": true, "after a pull": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, j := newRecordingNode(t, 1)
				if stored {
					j.stored = []string{j.sets[0].Images[0].String()}
				}
				c := &slowCRIO{recordingNode: j, slow: 4}
				r.Images = c
				if s := runPass(t, r); !s.Healthy() || c.lists != c.slow+1 {
					t.Errorf("got %v after %d lists, want a healthy node after %d", s.Errors, c.lists, c.slow+1)
				}
			})
		})
	}
}

// A conflict that a reload cannot resolve does not make every pass reload.
func TestConflictIsNotAReasonToReload(t *testing.T) {
	for name, c := range map[string]struct {
		conflict error
		reloads  int
	}{
		"a conflict":        {errors.New("99-admin has other pins"), 1},
		"an unknown reason": {nil, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, j := newRecordingNode(t, 1)
				j.stored = []string{j.sets[0].Images[0].String()}
				r.Images, options(r).PinTimeout = &slowCRIO{recordingNode: j, slow: 1000}, time.Millisecond
				r.Pins = conflictingPins{recordingNode: j, conflict: c.conflict, exact: true}
				runPass(t, r)
				runPass(t, r)
				got := len(slices.DeleteFunc(slices.Clone(j.calls), func(call string) bool { return call != "pin" }))
				if got != c.reloads {
					t.Errorf("got %d reloads in two passes, want %d", got, c.reloads)
				}
			})
		})
	}
}

// The status between passes has the conflict, too.
func TestStatusHasTheConflict(t *testing.T) {
	r, j := newRecordingNode(t, 1)
	runPass(t, r)
	conflict := errors.New("99-admin has other pins")
	r.Pins = conflictingPins{recordingNode: j, conflict: conflict, exact: true}
	s, err := r.Status(t.Context(), false)
	if err != nil || !slices.Equal(s.Errors, []string{conflict.Error()}) {
		t.Errorf("got %v, %v, want %v", s.Errors, err, conflict)
	}
}

// A pass that pulls nothing has no progress to report.
func TestPassThatOnlyPins(t *testing.T) {
	r, j := newRecordingNode(t, 1)
	j.stored = []string{j.sets[0].Images[0].String()}
	if s := runPass(t, r); !s.Healthy() {
		t.Errorf("got %v, want a healthy node", s.Errors)
	}
	for _, s := range j.published {
		if s.Progress != nil {
			t.Errorf("got the progress %+v, want none: %s", s.Progress, s.Summary())
		}
	}
}

// forgetful counts how often the manifests are forgotten.
type forgetful struct {
	runtime.Manifests
	n int
}

func (f *forgetful) Forget() { f.n++ }

// Manifests are kept for the next pass while images are missing, and no longer.
func TestManifestsAreForgotten(t *testing.T) {
	for name, want := range map[string]int{"": 1, "unauthorized": 0} {
		t.Run("error "+name, func(t *testing.T) {
			r, _ := newFlakyRegistry(t, 1, func(pinset.Image, int) error {
				if name == "" {
					return nil
				}
				return errors.New(name)
			})
			f := &forgetful{Manifests: of(r).conf.Manifests}
			of(r).conf.Manifests = f
			s := runPass(t, r)
			if f.n != want || !strings.Contains(s.Images[0].Error, name) {
				t.Errorf("got them forgotten %d times, want %d: %+v", f.n, want, s.Images[0])
			}
		})
	}
}
