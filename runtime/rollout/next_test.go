package rollout_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/rollout"
)

const stale = 2 * time.Hour

var (
	now = time.Unix(1_700_000_000, 0).UTC()
	set = []rollout.Target{{Name: "worker", UID: "u", Generation: 5}}
)

// nodes are made of a letter each, in the order of their places: ready, outdated, held back, pulling, failing,
// failing and pulling again, Silent, never reported, never reported though it joined long ago, joined (no first
// sync), managed by the operator, and "-" for a node without the set.
func nodes(t *testing.T, letters string) (all []fleet.Node) {
	t.Helper()
	for i, letter := range letters {
		n := fleet.Node{
			Name: fmt.Sprintf("n%02d", i+1), Place: int64(i + 1), Created: now.Add(-time.Minute),
			Desired: map[string]int64{"worker": 5},
			Report: &fleet.Report{
				Time: now.Add(-time.Minute), FirstSync: now.Add(-time.Hour), Ready: true,
				Sets: []fleet.SetReport{{Name: "worker", Images: 1, Pinned: 1, DesiredGeneration: 5, CurrentGeneration: 5}},
			},
		}
		set := &n.Report.Sets[0]
		progressing := []runtime.Condition{{Type: runtime.ProgressingCondition, Status: "True"}}
		failed := func() {
			n.Report.Ready, set.Pinned, set.LastFailedGeneration, set.LastFailedGenerationError = false, 0, 5, "denied"
			n.Report.Failures = []fleet.Failure{{Class: "auth", Images: 1, Image: "img", Error: "denied"}}
		}
		switch letter {
		case 'r':
		case 'o':
			set.DesiredGeneration, set.CurrentGeneration = 4, 4
		case 'h':
			set.DesiredGeneration, set.CurrentGeneration, n.Held = 4, 4, map[string]string{"worker": "waits"}
		case 'p':
			n.Report.Ready, set.Pinned, n.Report.Conditions = false, 0, progressing
		case 'f':
			failed()
		case 'F':
			failed()
			n.Report.Conditions = progressing
		case 's':
			n.Report.Time = now.Add(-2 * stale)
		case 'n':
			n.Report = nil
		case 'N':
			n.Report, n.Created = nil, now.Add(-2*stale)
		case 'j':
			n.Report.FirstSync = time.Time{}
		case 'm':
			n.Report.Owner = string(runtime.MCO)
		case '-':
			n.Desired = map[string]int64{"other": 1}
		default:
			t.Fatalf("letter %q", letter)
		}
		all = append(all, n)
	}
	slices.Reverse(all) // the order of a list does not count
	return all
}

// waves reads waves as "canary=1 10% rest".
func waves(t *testing.T, text string) (all []rollout.Wave) {
	t.Helper()
	for field := range strings.FieldsSeq(text) {
		w, err := rollout.ParseWave(field)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, w)
	}
	return all
}

// status of a rollout that has released the first nodes, in a wave.
func status(released int64, wave int) rollout.Status {
	return rollout.Status{State: rollout.Progressing, Started: now, Sets: set, Released: released, Wave: wave}
}

const all = rollout.Everyone

const three = "canary=1 30% rest"

// failing is the reason of a canary that fails.
func failing(reason string) string { return "1 nodes must be ready, and 1 fail: n01: " + reason }

// decisions of a rollout whose status is known, by what its nodes report.
var decisions = map[string]struct {
	spec         rollout.Spec
	waves, nodes string
	before       rollout.Status
	released     int64
	wave         int
	state        rollout.State
	reason       string
}{
	"begins with the canary":        {rollout.Spec{}, three, "oooooooooo", rollout.Status{}, 1, 0, rollout.Progressing, "wave canary: 1 of 1 nodes are released"},
	"the canary has not seen it":    {rollout.Spec{}, three, "oooooooooo", status(1, 0), 1, 0, rollout.Progressing, "wave canary: 1 of 1 nodes must be ready, and 0 are"},
	"the canary pulls":              {rollout.Spec{}, three, "pooooooooo", status(1, 0), 1, 0, rollout.Progressing, "and 0 are"},
	"the canary is ready":           {rollout.Spec{}, three, "rooooooooo", status(1, 0), 3, 1, rollout.Progressing, "wave 30%: 3 of 3 nodes are released"},
	"the canary fails":              {rollout.Spec{}, three, "fooooooooo", status(1, 0), 1, 0, rollout.Paused, failing("auth: img: denied")},
	"the canary fails and retries":  {rollout.Spec{}, three, "Fooooooooo", status(1, 0), 1, 0, rollout.Paused, failing("incomplete: denied")},
	"the canary is silent":          {rollout.Spec{}, three, "sooooooooo", status(1, 0), 1, 0, rollout.Paused, failing("silent: since 2023")},
	"the canary has never reported": {rollout.Spec{}, three, "Nooooooooo", status(1, 0), 1, 0, rollout.Paused, failing("never reported")},
	"the canary has just joined":    {rollout.Spec{}, three, "nooooooooo", status(1, 0), 1, 0, rollout.Progressing, "and 0 are"},
	"the canary lacks the sets yet": {rollout.Spec{}, three, "jooooooooo", status(1, 0), 1, 0, rollout.Progressing, "and 0 are"},
	"the canary was mended":         {rollout.Spec{}, three, "rooooooooo", with(status(1, 0), rollout.Paused), 3, 1, rollout.Progressing, "wave 30%"},
	"the canary vanished":           {rollout.Spec{}, three, "-ooooooooo", status(1, 0), 2, 0, rollout.Progressing, "wave canary: 1 of 1"},
	"percentages are rounded up":    {rollout.Spec{}, "10% rest", "ooooooooooo", rollout.Status{}, 2, 0, rollout.Progressing, "wave 10%: 2 of 2"},
	"a percentage of one node":      {rollout.Spec{}, "10% rest", "o", rollout.Status{}, 1, 0, rollout.Progressing, "wave 10%: 1 of 1"},
	"more than there are":           {rollout.Spec{}, "50 rest", "oo", rollout.Status{}, 2, 0, rollout.Progressing, "wave 50: 2 of 2"},
	"a wave that is no more":        {rollout.Spec{}, "5 30% rest", "rrrrrooooo", status(5, 0), 10, 2, rollout.Progressing, "wave rest: 10 of 10"},
	"the rest":                      {rollout.Spec{}, three, "rrrooooooo", status(3, 1), 10, 2, rollout.Progressing, "wave rest: 10 of 10"},
	"complete":                      {rollout.Spec{}, three, "rrrrrrrrrr", status(10, 2), all, 2, rollout.Complete, "10 of 10 nodes were ready"},
	"complete with those that may":  {rollout.Spec{Success: 90}, three, "rrrfrrrrrr", status(10, 2), all, 2, rollout.Complete, "9 of 10"},
	"too many fail":                 {rollout.Spec{Success: 90}, three, "rrrfrrrsrr", status(10, 2), 10, 2, rollout.Paused, "9 of 10 nodes must be ready, and 2 fail: n04: auth"},
	"not enough are ready":          {rollout.Spec{Success: 90}, three, "rrrfrrrprr", status(10, 2), 10, 2, rollout.Progressing, "9 of 10 nodes must be ready, and 8 are"},
	"joined in the last wave":       {rollout.Spec{}, three, "rrrrrrrrrro", status(10, 2), 11, 2, rollout.Progressing, "wave rest: 11 of 11"},
	"complete stays":                {rollout.Spec{}, three, "rrrrrrrrfn", with(status(all, 2), rollout.Complete), all, 2, rollout.Complete, ""},
	"complete, and changed":         {rollout.Spec{}, three, "oooooooooo", older(all, 2), 1, 0, rollout.Progressing, "wave canary: 1 of 1"},
	"changed in mid-wave":           {rollout.Spec{}, three, "oooooooooo", older(3, 1), 1, 0, rollout.Progressing, "wave canary: 1 of 1"},
	"paused":                        {rollout.Spec{Paused: true}, three, "rooooooooo", status(1, 0), 1, 0, rollout.Paused, "wave canary: paused by somebody"},
	"paused before it begins":       {rollout.Spec{Paused: true}, three, "oooooooooo", rollout.Status{}, 0, 0, rollout.Paused, "paused by somebody"},
	"resumed":                       {rollout.Spec{}, three, "rooooooooo", with(status(1, 0), rollout.Paused), 3, 1, rollout.Progressing, "wave 30%: 3 of 3"},
	"two pull at once":              {rollout.Spec{MaxPulling: 2}, "rest", "oooooooooo", rollout.Status{}, 2, 0, rollout.Progressing, "wave rest: 2 of 10"},
	"one of two has pulled":         {rollout.Spec{MaxPulling: 2}, "rest", "rpoooooooo", status(2, 0), 3, 0, rollout.Progressing, "wave rest: 3 of 10"},
	"none has pulled":               {rollout.Spec{MaxPulling: 2}, "rest", "poo", status(2, 0), 2, 0, rollout.Progressing, "wave rest: 2 of 3"},
	"who fails does not pull":       {rollout.Spec{MaxPulling: 2, Success: 50}, "rest", "fsoooooooo", status(2, 0), 4, 0, rollout.Progressing, "wave rest: 4 of 10"},
	"more pull than may":            {rollout.Spec{MaxPulling: 1}, "rest", "pppo", status(3, 0), 3, 0, rollout.Progressing, "wave rest: 3 of 4"},
	"the last one may pull":         {rollout.Spec{MaxPulling: 2}, "rest", "rrro", status(3, 0), 4, 0, rollout.Progressing, "wave rest: 4 of 4"},
	"joined before the released":    {rollout.Spec{}, "2 5 rest", "rrnooooooo", status(3, 0), 3, 0, rollout.Progressing, "3 of 3 nodes must be ready, and 2 are"},
	"no nodes":                      {rollout.Spec{}, three, "", rollout.Status{}, 0, 0, rollout.Idle, "no node has a set of this rollout"},
	"no node with the set":          {rollout.Spec{}, three, "--", status(1, 0), 1, 0, rollout.Idle, "no node"},
	"nodes of the operator":         {rollout.Spec{}, "1 rest", "mmo", rollout.Status{}, 3, 0, rollout.Progressing, "wave 1: 1 of 1"},
	"waves were removed meanwhile":  {rollout.Spec{}, "rest", "rrroo", status(3, 2), 5, 0, rollout.Progressing, "wave rest: 5 of 5"},
	"a limit that the API refuses":  {rollout.Spec{Waves: []rollout.Wave{{"x", "many"}, {"rest", "rest"}}}, "", "oo", rollout.Status{}, 0, 0, rollout.Paused, "limit \"many\""},
	"no waves":                      {rollout.Spec{}, "", "oo", rollout.Status{}, 0, 0, rollout.Paused, "the last one must have the limit"},
	"all are ready when it begins":  {rollout.Spec{}, three, "rrrrrrrrrr", rollout.Status{}, 1, 0, rollout.Progressing, "wave canary: 1 of 1"},
	"all waves when all have it":    {rollout.Spec{}, "1 2 3 rest", "rrr", status(3, 0), all, 3, rollout.Complete, "3 of 3"},
}

// A node that is released and never moves fails when it still reports so after a deadline, and the rollout goes on
// without it or pauses: it must not hold a place of those that may pull for ever.
func TestNodesThatNeverMove(t *testing.T) {
	for name, c := range map[string]struct {
		spec     rollout.Spec
		nodes    string
		released time.Duration // ago
		reported time.Duration // after the release, by the first node
		want     rollout.Counts
		state    rollout.State
		reason   string
	}{
		"a moment ago": {rollout.Spec{}, "oo", time.Hour, time.Hour, rollout.Counts{Pulling: 1}, rollout.Progressing, "and 0 are"},
		"not taken after the time of stale": {
			rollout.Spec{}, "oo", 3 * time.Hour, 3 * time.Hour, rollout.Counts{Failing: 1}, rollout.Paused,
			failing("has not the last generation yet: set worker: generation 4 of 5, 3h0m0s after its release"),
		},
		"not heard of since":         {rollout.Spec{}, "oo", 3 * time.Hour, 90 * time.Minute, rollout.Counts{Pulling: 1}, rollout.Progressing, ""},
		"held back, which is no end": {rollout.Spec{}, "ho", 3 * time.Hour, 3 * time.Hour, rollout.Counts{Failing: 1}, rollout.Paused, "held back"},
		"pulls, without a deadline":  {rollout.Spec{}, "po", 99 * time.Hour, 99 * time.Hour, rollout.Counts{Pulling: 1}, rollout.Progressing, "and 0 are"},
		"pulls after the deadline": {
			rollout.Spec{Deadline: "6h"}, "po", 7 * time.Hour, 7 * time.Hour, rollout.Counts{Failing: 1}, rollout.Paused,
			failing("pulling: 7h0m0s after its release"),
		},
		"pulls before the deadline": {rollout.Spec{Deadline: "6h"}, "po", 5 * time.Hour, 5 * time.Hour, rollout.Counts{Pulling: 1}, rollout.Progressing, ""},
		"has not begun before the deadline": {
			rollout.Spec{Deadline: "6h"}, "oo", 3 * time.Hour, 3 * time.Hour, rollout.Counts{Pulling: 1}, rollout.Progressing, "",
		},
		"ready after the deadline": {rollout.Spec{Deadline: "6h"}, "ro", 9 * time.Hour, 9 * time.Hour, rollout.Counts{Ready: 1, Pulling: 1}, rollout.Progressing, "wave rest: 2 of 2"},
		"others may take its place": {
			rollout.Spec{MaxPulling: 1, Success: 50}, "oo", 3 * time.Hour, 3 * time.Hour, rollout.Counts{Failing: 1, Pulling: 1},
			rollout.Progressing, "2 of 2 nodes are released",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rollout.Rollout{Spec: c.spec, Status: status(1, 0)}
			r.Spec.Waves = waves(t, "1 rest")
			if c.spec.MaxPulling > 0 {
				r.Spec.Waves = waves(t, "rest")
			}
			r.Status.Started, r.Status.ReleasedAt = now.Add(-200*time.Hour), now.Add(-c.released)
			all := nodes(t, c.nodes)
			for i := range all {
				all[i].Created = now.Add(-1000 * time.Hour)
			}
			all[1].Report.Time = r.Status.ReleasedAt.Add(c.reported)
			got := r.Next(set, all, stale, now)
			n := got.Nodes
			if n.Ready != c.want.Ready || n.Pulling != c.want.Pulling || n.Failing != c.want.Failing {
				t.Errorf("got %+v, want %+v", n, c.want)
			}
			if got.State != c.state || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("got %s, %q, want %s, %q", got.State, got.Reason, c.state, c.reason)
			}
		})
	}
}

// The deadline begins when nodes were released last, or when a node has joined after that.
func TestWhenNodesWereReleased(t *testing.T) {
	r := rollout.Rollout{Spec: rollout.Spec{Waves: waves(t, "1 rest")}}
	r.Status = r.Next(set, nodes(t, "oo"), stale, now)
	if !r.Status.ReleasedAt.Equal(now) {
		t.Errorf("got %v, want %v", r.Status.ReleasedAt, now)
	}
	later := now.Add(time.Hour)
	if got := r.Next(set, nodes(t, "oo"), stale, later); !got.ReleasedAt.Equal(now) {
		t.Errorf("nobody more was released: got %v, want %v", got.ReleasedAt, now)
	}
	if got := r.Next(set, nodes(t, "ro"), stale, later); !got.ReleasedAt.Equal(later) {
		t.Errorf("another one was released: got %v, want %v", got.ReleasedAt, later)
	}
	joined := nodes(t, "oo")
	joined[1].Created, joined[1].Report.Time = now.Add(4*time.Hour), now.Add(5*time.Hour)
	if got := r.Next(set, joined, stale, now.Add(5*time.Hour)); got.Nodes.Pulling != 1 {
		t.Errorf("it joined an hour ago: got %+v, want that it may go on", got.Nodes)
	}
}

func TestNext(t *testing.T) {
	for name, test := range decisions {
		t.Run(name, func(t *testing.T) {
			r := rollout.Rollout{Spec: test.spec, Status: test.before}
			if test.waves != "" {
				r.Spec.Waves = waves(t, test.waves)
			}
			got := r.Next(set, nodes(t, test.nodes), stale, now)
			if got.Released != test.released || got.Wave != test.wave || got.State != test.state ||
				!strings.Contains(got.Reason, test.reason) {
				t.Errorf("got %+v, want %d released, wave %d, %s, %q", got, test.released, test.wave, test.state, test.reason)
			}
			if again := (rollout.Rollout{Spec: r.Spec, Status: got}).Next(set, nodes(t, test.nodes), stale, now); again.Released < got.Released ||
				again.Wave < got.Wave {
				t.Errorf("got %+v after %+v, want none less", again, got)
			}
		})
	}
}

// Each node is judged by those sets of the rollout that it has, and a failure counts more than a pull.
func TestNextOfTwoSets(t *testing.T) {
	sets := []rollout.Target{{Name: "worker", UID: "u", Generation: 5}, {Name: "other", UID: "v", Generation: 1}}
	both := nodes(t, "Fr")
	failing, other := &both[1], &both[0] // the last one is the first
	failing.Desired = map[string]int64{"worker": 5, "other": 1}
	failing.Report.Conditions = nil
	other.Desired = map[string]int64{"worker": 5}
	r := rollout.Rollout{Spec: rollout.Spec{Waves: waves(t, "rest"), Success: 50}, Status: rollout.Status{
		State: rollout.Progressing, Sets: []rollout.Target{sets[1], sets[0]}, Released: 2,
	}}
	if got := r.Next(sets, both, stale, now); got.Nodes != (rollout.Counts{Total: 2, Released: 2, Ready: 1, Failing: 1}) {
		t.Errorf("got %+v, want one node ready, and one failing", got)
	}
	for _, set := range sets { // one is enough to be concerned
		r.Status.Sets = []rollout.Target{set}
		if got := r.Next([]rollout.Target{set}, both, stale, now); got.Nodes.Total == 0 {
			t.Errorf("%s: got %+v, want nodes", set.Name, got)
		}
	}
}

// with is a status with another state.
func with(s rollout.Status, state rollout.State) rollout.Status {
	s.State = state
	return s
}

// older is the status of an earlier generation.
func older(released int64, wave int) rollout.Status {
	s := with(status(released, wave), rollout.Complete)
	s.Sets = []rollout.Target{{Name: "worker", UID: "u", Generation: 4}}
	return s
}

// A node takes a generation of a set that is released up to its place, and no other one.
func TestReleases(t *testing.T) {
	s := status(10, 0)
	for name, test := range map[string]struct {
		target rollout.Target
		place  int64
		want   bool
	}{
		"the last one":         {set[0], 10, true},
		"the next one":         {set[0], 11, false},
		"an unknown place":     {set[0], 0, false},
		"a later generation":   {rollout.Target{Name: "worker", UID: "u", Generation: 6}, 1, false},
		"an older generation":  {rollout.Target{Name: "worker", UID: "u", Generation: 4}, 1, false},
		"made again":           {rollout.Target{Name: "worker", UID: "v", Generation: 5}, 1, false},
		"a set of another one": {rollout.Target{Name: "x", UID: "u", Generation: 5}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := s.Releases(test.target, test.place); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

// Canaries come first, and all places are before Everyone. The order stays in later releases: what a node of another
// version takes for released is the same.
func TestPlace(t *testing.T) {
	canary := map[string]string{rollout.CanaryLabel: ""}
	for _, name := range []string{"a", "node-00001", "node-00002"} {
		first, other := rollout.Place(name, canary), rollout.Place(name, nil)
		if first < 1 || first > 1<<40 || other <= 1<<40 || other >= rollout.Everyone {
			t.Errorf("%s: got the places %d and %d", name, first, other)
		}
	}
	if got, want := rollout.Place("node-00001", nil), int64(1753062294291); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// Nodes are released in the window of the day alone: now is 22:13 UTC.
func TestWindow(t *testing.T) {
	for window, want := range map[string]int64{
		"": 1, "22:00-05:00": 1, "00:00-23:59": 1, "22:13-22:14": 1, "05:00-22:00": 0, "22:14-05:00": 0, "05:00-22:13": 0,
		"22-5": -1, "x": -1, "22:00": -1, "24:00-05:00": -1, "9:00-23:00": -1, "22:00-05:00-06:00": -1,
	} {
		t.Run(window, func(t *testing.T) {
			r := rollout.Rollout{Spec: rollout.Spec{Waves: waves(t, "1 rest"), Window: window}}
			if err := r.Spec.Check(); (err != nil) != (want < 0) {
				t.Errorf("got %v, want an error: %v", err, want < 0)
			}
			got := r.Next(set, nodes(t, "oo"), stale, now)
			if got.Released != max(0, want) || (got.State == rollout.Paused) != (want < 0) {
				t.Errorf("got %+v, want %d released", got, max(0, want))
			}
			r.Status = status(1, 0) // who is released goes on
			if got := r.Next(set, nodes(t, "ro"), stale, now); want == 0 && got.Nodes.Ready != 1 {
				t.Errorf("got %+v, want a node ready", got)
			}
		})
	}
}

func TestParseWave(t *testing.T) {
	for text, want := range map[string]rollout.Wave{
		"canary=1": {"canary", "1"}, "10%": {"10%", "10%"}, "rest": {"rest", "rest"}, "100%": {"100%", "100%"},
		"": {}, "0": {}, "0%": {}, "101%": {}, "-1": {}, "x": {}, "a=b=1": {}, "=1": {}, "a=": {}, "1.5%": {}, "a\n=1": {},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := rollout.ParseWave(text)
			if want == (rollout.Wave{}) != errors.Is(err, rollout.ErrSpec) || err == nil && got != want {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		})
	}
}

func TestCheckOfWaves(t *testing.T) {
	for name, test := range map[string]struct {
		spec rollout.Spec
		ok   bool
	}{
		"good":           {rollout.Spec{Waves: waves(t, "canary=1 10% rest"), Success: 95, MaxPulling: 20}, true},
		"one wave":       {rollout.Spec{Waves: waves(t, "rest")}, true},
		"none":           {rollout.Spec{}, false},
		"no rest":        {rollout.Spec{Waves: waves(t, "1 10%")}, false},
		"rest is first":  {rollout.Spec{Waves: waves(t, "rest 1")}, false},
		"a name twice":   {rollout.Spec{Waves: waves(t, "a=1 a=2 rest")}, false},
		"success":        {rollout.Spec{Waves: waves(t, "rest"), Success: 101}, false},
		"max pulling":    {rollout.Spec{Waves: waves(t, "rest"), MaxPulling: -1}, false},
		"deadline":       {rollout.Spec{Waves: waves(t, "rest"), Deadline: "1h30m0s"}, true},
		"no deadline":    {rollout.Spec{Waves: waves(t, "rest"), Deadline: "-1h"}, false},
		"days":           {rollout.Spec{Waves: waves(t, "rest"), Deadline: "1d"}, false},
		"a broken limit": {rollout.Spec{Waves: []rollout.Wave{{"a", "x"}, {"rest", "rest"}}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := test.spec.Check(); (err == nil) != test.ok {
				t.Errorf("got %v, want none: %v", err, test.ok)
			}
		})
	}
}
