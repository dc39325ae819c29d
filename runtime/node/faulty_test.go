package node

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
)

// step is a command on a node.
type step func(context.Context, stores.Manager) error

func attachStep(folder string) step {
	return func(ctx context.Context, m stores.Manager) error {
		_, err := m.Attach(ctx, stores.AttachOptions{Source: folder})
		return err
	}
}

func rollbackStep(ctx context.Context, m stores.Manager) error {
	_, err := m.Rollback(ctx, "")
	return err
}

// replaceStep is the pass before CRI-O starts, in which a compacted store replaces others.
func replaceStep(ctx context.Context, m stores.Manager) error {
	_, err := m.Reconcile(ctx, func() bool { return true })
	return err
}

// Whichever operation fails on the disk with the stores and the sets: the node has the sets from before or from
// after, each attached store is mounted after the next pass, and the same command succeeds then.
func TestFaultAtEachOperationOfANode(t *testing.T) {
	folders, pins := buildDeltas(t, 2)
	thinDelta := attachStep(thinOf(t, pins[1], folders[0]))
	first, second, main := attachStep(folders[1]), attachStep(folders[2]), emptyMainStore(t)
	detach := func(ctx context.Context, m stores.Manager) error {
		_, err := m.Detach(ctx, "1", main)
		return err
	}
	compact := func(ctx context.Context, m stores.Manager) error {
		_, err := m.Compact(ctx, stores.CompactOptions{GraphRoots: []string{main}})
		return err
	}
	for name, c := range map[string]faultyCommand{
		"attach":              {do: first, stores: 1},
		"attach a thin delta": {do: thinDelta, stores: 1},
		"rollback": {before: []step{first}, do: rollbackStep, stores: 1,
			again: func(ctx context.Context, m stores.Manager) error {
				_, err := m.Rollback(ctx, "0")
				if errors.Is(err, stores.ErrNoPrevious) { // the pass has completed it
					return nil
				}
				return err
			}},
		"detach": {before: []step{first, rollbackStep}, do: detach, stores: 0,
			again: func(ctx context.Context, m stores.Manager) error {
				if err := detach(ctx, m); !errors.Is(err, stores.ErrNotAttached) { // the pass has completed it
					return err
				}
				return nil
			}},
		"compact": {before: []step{first, second}, do: compact, stores: 2},
		"the pass that replaces": {before: []step{first, second, compact}, do: replaceStep, stores: 1,
			again: func(ctx context.Context, m stores.Manager) error {
				if err := compact(ctx, m); !errors.Is(err, stores.ErrNothingToCompact) { // the stores were not replaced
					return errors.Join(err, replaceStep(ctx, m))
				}
				return nil
			}},
	} {
		t.Run(name, func(t *testing.T) {
			disk := fixtures.NewFaultyDisk(t)
			disk.OneIn = 24
			m := newManagerIn(t, folders[0], disk.Path("state"), disk.Path("sets.d"))
			if c.again == nil {
				c.again = c.do
			}
			before, after := c.prepare(t, m, pins[0]), ""
			disk.WithFaults(func() error { return c.do(t.Context(), m) }, func(f fixtures.Fault, _ string, err error) {
				if f.Number == 0 {
					after = setText(t, m)
				}
				if got := setText(t, m); got != before && got != after {
					t.Errorf("after %v: got other sets: %s", err, got)
				}
				if err != nil && !errors.Is(err, f.Errno) {
					t.Errorf("got %v, want %v", err, f.Errno)
				}
				c.check(t, m, err)
				if got := setText(t, m); got != after {
					t.Errorf("got the sets %s, want %s", got, after)
				}
				c.prepare(t, m, pins[0])
			})
		})
	}
}

// faultyCommand is a command during which the disk has a fault.
type faultyCommand struct {
	before []step
	do     step
	stores int  // attached stores after that
	again  step // the next time; nil is do
}

// prepare makes a node as it is before the command, and returns its sets.
func (c faultyCommand) prepare(t *testing.T, m stores.Manager, pin string) (sets string) {
	t.Helper()
	reboot(t, m)
	if err := errors.Join(os.RemoveAll(m.Dir), os.RemoveAll(m.Sets), os.Mkdir(m.Sets, 0o755),
		os.WriteFile(m.Sets+"/s.yaml", sample.SetNamed("s", pin), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, step := range c.before {
		if err := step(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	return setText(t, m)
}

// check makes a pass after the command, and then the command again if it failed.
func (c faultyCommand) check(t *testing.T, m stores.Manager, failed error) {
	t.Helper()
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Errorf("the next pass: got %v", err)
	}
	all, err := m.Status(t.Context())
	for _, s := range all {
		err = errors.Join(err, s.Problem)
	}
	if err != nil {
		t.Errorf("after %v: got %v, want that all stores are mounted", failed, err)
	}
	if failed != nil {
		if err := c.again(t.Context(), m); err != nil {
			t.Errorf("the next time: got %v", err)
		}
	}
	wantMounted(t, m, c.stores)
}
