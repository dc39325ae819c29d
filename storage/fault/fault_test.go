package fault_test

import (
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/pinbox/pinbox/storage/fault"
)

func TestWhatCounts(t *testing.T) {
	damaged := fault.New(fault.Damaged, "damaged", "copy it again")
	full := fault.New(fault.Space, "full", "free some")
	for name, test := range map[string]struct {
		err  error
		hint string // "" for none
	}{
		"nil":                        {nil, ""},
		"none":                       {fmt.Errorf("read: %w", fs.ErrNotExist), ""},
		"wrapped":                    {fmt.Errorf("read: %w", damaged), "copy it again"},
		"a cause after its effect":   {fmt.Errorf("%w: %w", damaged, full), "free some"},
		"a cause without a hint":     {fmt.Errorf("%w: %w", damaged, fs.ErrNotExist), "copy it again"},
		"deep in one of several":     {errors.Join(fmt.Errorf("a: %w", fmt.Errorf("b: %w", full)), fs.ErrExist), "free some"},
		"a place that knows better":  {fmt.Errorf("x: %w", fault.With(full, fault.Input, "take another")), "take another"},
		"an effect that counts":      {fmt.Errorf("x: %w", fault.Wrap(damaged, full)), "copy it again"},
		"an effect of what it knows": {fmt.Errorf("%w: %w", damaged, fault.With(full, fault.Input, "take another")), "take another"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if f := fault.Of(test.err); f != nil {
				got = f.Hint
			}
			if got != test.hint {
				t.Errorf("got the hint %q, want %q", got, test.hint)
			}
		})
	}
}

func TestErrorsOfTheirOwn(t *testing.T) {
	a, b := fault.New(fault.Input, "same", "same"), fault.New(fault.Input, "same", "same")
	with := fault.With(a, fault.Usage, "other")
	if errors.Is(a, b) || !errors.Is(with, a) || with.Error() != "same" || fault.Of(with).Exit != fault.Usage {
		t.Errorf("got %v, %v and %v, want two errors, and the first one with another exit code", a, b, with)
	}
}
