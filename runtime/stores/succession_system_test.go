package stores_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures/appliance"
)

// Through the programs: an older release is refused, also by itself, and attached by force; the same with that of
// another appliance. A copy of the appliance's own store is not copied. With a real CRI-O.
func TestAttachOlderRelease(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	s := &testSystem{t: t}
	var err error
	if s.pins, err = registry.PushSeries(t.Context(), testProgram(t), 3); err != nil {
		t.Fatal(err)
	}
	options := func(n int, m spec.Metadata) builder.Options {
		o := releaseOptions(t, s.pins[n])
		o.Appliance.Metadata = m
		return o
	}
	base := options(0, spec.Metadata{Name: "edge", Release: 7})
	s.Node = appliance.Boot(t, base, s.pins[0][0])
	build := func(n int, m spec.Metadata, warning string) string {
		t.Helper()
		o := options(n, m)
		o.From = []string{base.Out}
		r, err := builder.Delta(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		others := slices.DeleteFunc(r.Warnings, func(w string) bool { return strings.Contains(w, "--insecure-registry") })
		if got := strings.Join(others, "\n"); !strings.Contains(got, warning) || (warning == "") != (got == "") {
			t.Errorf("%+v: got the warnings %q, want %q", m, got, warning)
		}
		return o.Out
	}
	edge := func(number int64) spec.Metadata { return spec.Metadata{Name: "edge", Release: number} }
	const refused = "nodes attach the delta only with --force: "
	newer, between := build(2, edge(9), ""), build(1, edge(8), "")
	older := build(1, edge(7), refused+"the release is not newer")
	other := build(1, spec.Metadata{Name: "shop", Release: 10}, refused+"the store is of another")
	s.Start()
	s.mustRun("attach", newer)
	s.wantPinned(2)
	for folder, want := range map[string]string{
		between: "it is edge release 8, and the node has edge release 9", older: "it is edge release 7, and",
		other: `it is of "shop", and the node has "edge"`,
	} {
		s.wantExit(3, want, "attach", folder)
		s.wantExit(3, "--force", "attach", folder)
		s.wantExit(3, want, "attach", "--auto", folder)
		if out := s.mustRun("status").Out; !strings.Contains(out, "refused") || !strings.Contains(out, want) {
			t.Errorf("got %s, want the refused store and the reason", out)
		}
	}
	s.wantExit(2, "--auto does not go with --force", "attach", "--auto", "--force", between)
	s.wantPinned(2)
	if out := s.mustRun("attach", "--keep-sets", base.Out).Out; !strings.Contains(out, "at slot 0: nothing was copied") {
		t.Errorf("got %s, want that the appliance's own store was not copied", out)
	}
	if said := s.mustRun("attach", "--force", between).Err; !strings.Contains(said, "--force: neither the appliance nor") {
		t.Errorf("got %q, want that two checks were left out", said)
	}
	s.wantPinned(1)
	if out := s.mustRun("status").Out; !strings.Contains(out, "8, current") || !strings.Contains(out, "9, previous") {
		t.Errorf("got %s, want the numbers of both releases", out)
	}
	s.mustRun("rollback")
	s.wantPinned(2)
}

// Releases without numbers: a medium does not change the node by itself, also an old one with a good signature,
// and an attach by hand says that it may go back. The build says so before. With a real CRI-O.
func TestAttachReleasesWithoutNumbers(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	may := "so it may be the older one: `pinbox-node rollback` returns to that"
	if out := s.mustRun("attach", s.stores[1]).Out; !strings.Contains(out, may) {
		t.Errorf("got %q, want %q", out, may)
	}
	s.wantExit(3, "the release has no number", "attach", "--auto", s.stores[2])
	s.wantExit(3, "`pinbox-node attach` without --auto", "attach", "--auto", s.stores[2])
	s.wantPinned(1)
	if out := s.mustRun("status").Out; !strings.Contains(out, "refused") || !strings.Contains(out, "has no number") {
		t.Errorf("got %s, want the refused store and the reason", out)
	}
	s.mustRun("attach", s.stores[2])
	s.wantPinned(2)
}
