package fleet_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

var now = time.Unix(1_700_000_000, 0)

// ready is the report of a node that has all of one set, and a release.
func ready(change func(*fleet.Report)) *fleet.Report {
	r := &fleet.Report{
		Time: now.Add(-time.Minute), FirstSync: now.Add(-time.Hour), Ready: true, Pinbox: "v1",
		Sets:   []fleet.SetReport{{Name: "worker", Images: 2, Pinned: 2, CurrentGeneration: 3, DesiredGeneration: 3}},
		Images: fleet.ImageCounts{Total: 2, Pinned: 2},
		Stores: []fleet.StoreReport{{Name: "edge", Release: 6}, {Name: "edge", Release: 7, Current: true}},
	}
	if change != nil {
		change(r)
	}
	return r
}

// incomplete is the report of a node that lacks an image.
func incomplete(change func(*fleet.Report)) *fleet.Report {
	return ready(func(r *fleet.Report) {
		r.Ready, r.Images.Pinned, r.Sets[0].Pinned, r.BytesToGo = false, 1, 1, 500
		if change != nil {
			change(r)
		}
	})
}

func pulling(r *fleet.Report) {
	r.Conditions = []runtime.Condition{{Type: runtime.ProgressingCondition, Status: "True"}}
	r.ETA = now.Add(time.Hour)
}

// Each node is ready, or not for one reason.
func TestNodeIsNotReady(t *testing.T) {
	desired := map[string]int64{"worker": 3}
	edge := func(n int64) fleet.Query { return fleet.Query{Release: pinset.ReleaseID{Name: "edge", Number: n}} }
	stale := fleet.Query{Stale: time.Hour}
	for name, test := range map[string]struct {
		report       *fleet.Report
		desired      map[string]int64
		query        fleet.Query
		reason, text string
	}{
		"ready":                 {ready(nil), desired, stale, "", ""},
		"ready, from a file":    {ready(func(r *fleet.Report) { r.FirstSync = time.Time{} }), nil, stale, "", ""},
		"never reported":        {nil, desired, fleet.Query{}, fleet.NeverReported, ""},
		"joined a minute ago":   {ready(func(r *fleet.Report) { r.FirstSync = time.Time{} }), desired, fleet.Query{}, fleet.FirstSync, ""},
		"silent":                {ready(func(r *fleet.Report) { r.Time = now.Add(-2 * time.Hour) }), desired, stale, fleet.Silent, "since 2023-11-14T20:13:20Z"},
		"silent, but not asked": {ready(func(r *fleet.Report) { r.Time = now.Add(-2 * time.Hour) }), desired, fleet.Query{}, "", ""},
		"outdated":              {ready(nil), map[string]int64{"worker": 4}, fleet.Query{}, fleet.Outdated, "set worker: generation 3 of 4"},
		"a new set":             {ready(nil), map[string]int64{"worker": 3, "new": 1}, fleet.Query{}, fleet.Outdated, "set new: generation 0 of 1"},
		"a new set, not asked":  {ready(nil), map[string]int64{"worker": 3, "new": 1}, fleet.Query{Set: "worker"}, "", ""},
		"pulling":               {incomplete(pulling), desired, fleet.Query{}, fleet.Pulling, ""},
		"failed":                {incomplete(func(r *fleet.Report) { r.Failures = []fleet.Failure{{"auth", 1, "img", "denied"}} }), desired, fleet.Query{}, "auth", "img: denied"},
		"an error of the node":  {incomplete(func(r *fleet.Report) { r.Errors = []string{"no space"} }), desired, fleet.Query{}, fleet.Incomplete, "no space"},
		"without sets": {incomplete(func(r *fleet.Report) {
			r.Sets, r.Errors = nil, []string{"the node has no sets"}
			r.Conditions = []runtime.Condition{{Type: runtime.DegradedCondition, Status: "True", Reason: runtime.NoSets}}
		}), nil, fleet.Query{}, runtime.NoSets, "the node has no sets"},
		"incomplete":                    {incomplete(nil), desired, fleet.Query{}, fleet.Incomplete, "1 of 2 images are pinned"},
		"the set":                       {incomplete(nil), desired, fleet.Query{Set: "worker"}, fleet.Incomplete, "1 of 2 images are pinned"},
		"another set":                   {incomplete(func(r *fleet.Report) { r.Sets = append(r.Sets, fleet.SetReport{Name: "x", Images: 1, Pinned: 1}) }), nil, fleet.Query{Set: "x"}, "", ""},
		"the release":                   {ready(nil), desired, edge(7), "", ""},
		"the appliance":                 {ready(nil), desired, edge(0), "", ""},
		"a release that is not current": {ready(nil), desired, edge(6), fleet.NoRelease, ""},
		"a release of another":          {ready(nil), desired, fleet.Query{Release: pinset.ReleaseID{Name: "x"}}, fleet.NoRelease, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.query.Now = now
			s, err := fleet.Summarize([]fleet.Node{{Name: "n", Report: test.report, Desired: test.desired}}, test.query)
			if err != nil {
				t.Fatal(err)
			}
			reason, text := "", ""
			if len(s.NotReady) > 0 {
				reason, text = s.NotReady[0].Reason, s.NotReady[0].Nodes[0].Text
			}
			if reason != test.reason || text != test.text || s.AllReady() != (test.reason == "") {
				t.Errorf("got %q, %q, want %q, %q", reason, text, test.reason, test.text)
			}
		})
	}
}

// A site is told what a stick has to bring, and what none can bring.
func TestWhatASiteNeedsNext(t *testing.T) {
	failed := func(class runtime.Class) func(*fleet.Report) {
		return func(r *fleet.Report) { r.Failures = []fleet.Failure{{string(class), 1, "img", "failed"}} }
	}
	for name, c := range map[string]struct {
		report  *fleet.Report
		release int64
		want    string
	}{
		"ready":                     {ready(nil), 7, ""},
		"never reported":            {nil, 7, "a new report"},
		"old report":                {ready(func(r *fleet.Report) { r.Time = now.Add(-100 * time.Hour) }), 7, "a new report"},
		"behind":                    {ready(nil), 8, "edge release 8"},
		"lacks images":              {incomplete(failed(runtime.Auth)), 7, "500 bytes of images"},
		"without space":             {incomplete(failed(runtime.Space)), 7, "more space, which no stick brings"},
		"behind, and without space": {incomplete(failed(runtime.Space)), 8, "more space, which no stick brings"},
		"wanted": {ready(func(r *fleet.Report) { r.Wanted = []wanted.Image{{Name: "quay.io/x/b:1"}} }), 8,
			"edge release 8; a release with what its pods want (1)"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := fleet.Summarize([]fleet.Node{{Name: "n", Report: c.report}}, fleet.Query{
				Now: now, Stale: 50 * time.Hour, Release: pinset.ReleaseID{Name: "edge", Number: c.release},
			})
			if err != nil || s.Reports[0].Next != c.want {
				t.Errorf("got %+v, %v, want next %q", s.Reports, err, c.want)
			}
		})
	}
}

// The answer for many nodes counts nodes, sets, releases and programs, and adds up bytes.
func TestSummary(t *testing.T) {
	got, err := fleet.Summarize([]fleet.Node{
		{Name: "b", Report: ready(func(r *fleet.Report) { r.Wanted = []wanted.Image{{Name: "quay.io/x/b:1"}} })},
		{Name: "c", Report: incomplete(pulling)}, {Name: "a", Report: incomplete(pulling)},
		{Name: "d"}, {Name: "e", Report: ready(func(r *fleet.Report) {
			r.Stores, r.Pinbox, r.Wanted = nil, "v2", []wanted.Image{{Name: "quay.io/x/b:1"}, {Name: "quay.io/x/a:1"}}
		})},
	}, fleet.Query{Now: now})
	edge, reported := pinset.ReleaseID{Name: "edge", Number: 7}, ready(nil).Time
	want := fleet.Summary{
		Time: now.UTC(), Nodes: 5, Ready: 2, BytesToGo: 1000, ETA: now.Add(time.Hour),
		NotReady: []fleet.Reason{
			{Reason: fleet.NeverReported, Nodes: []fleet.NodeText{{Node: "d"}}},
			{Reason: fleet.Pulling, Nodes: []fleet.NodeText{
				{Node: "a", BytesToGo: 500, ETA: now.Add(time.Hour)}, {Node: "c", BytesToGo: 500, ETA: now.Add(time.Hour)},
			}},
		},
		ReadyNodes: []string{"b", "e"},
		Sets:       []fleet.SetCount{{Name: "worker", Nodes: 4, Ready: 2}},
		Releases:   []fleet.StoreCount{{ReleaseID: edge, Nodes: 3}},
		Reports: []fleet.NodeReport{
			{Node: "a", Time: reported, Release: edge, Reason: fleet.Pulling, Next: "500 bytes of images"},
			{Node: "b", Time: reported, Release: edge, Next: "a release with what its pods want (1)"},
			{Node: "c", Time: reported, Release: edge, Reason: fleet.Pulling, Next: "500 bytes of images"},
			{Node: "d", Reason: fleet.NeverReported, Next: "a new report"},
			{Node: "e", Time: reported, Next: "a release with what its pods want (2)"},
		},
		Programs: []fleet.ProgramName{{Program: "v1", Nodes: 3}, {Program: "v2", Nodes: 1}},
		Wanted:   []fleet.WantedCount{{Name: "quay.io/x/a:1", Nodes: 1}, {Name: "quay.io/x/b:1", Nodes: 2}},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := fleet.Summarize([]fleet.Node{{Name: "n", Report: ready(nil)}}, fleet.Query{Set: "x"}); !errors.Is(err, fleet.ErrNoNodes) ||
		!strings.Contains(err.Error(), "x") {
		t.Errorf("a set of no node: got %v", err)
	}
}

// What two reports say is the same, whatever the time, the space and the ETA.
func TestReportsThatSayTheSame(t *testing.T) {
	other := ready(func(r *fleet.Report) {
		r.Time, r.ETA, r.Space = now, now, []runtime.SpaceStatus{{Path: "/", Bytes: 5, Free: 3}}
	})
	if !other.Same(*ready(nil)) {
		t.Error("got another report, want the same")
	}
	wants := func(name string, times int) *fleet.Report {
		return ready(func(r *fleet.Report) { r.Wanted = []wanted.Image{{Name: name, Times: times, Last: now}} })
	}
	if first, again := wants("quay.io/x/a:1", 1), wants("quay.io/x/a:1", 2); !again.Same(*first) || again.Wanted[0].Times != 2 {
		t.Errorf("got another report after one more attempt, or %+v, want the same", again.Wanted)
	}
	if wants("quay.io/x/a:1", 1).Same(*wants("quay.io/x/b:1", 1)) || wants("quay.io/x/a:1", 1).Same(*ready(nil)) {
		t.Error("got the same, want another report when another image is wanted")
	}
	if incomplete(nil).Same(*ready(nil)) {
		t.Error("got the same, want another report")
	}
}

// How long a node has not been ready is known of what it reports, and of when it joined or fell silent.
func TestSinceWhen(t *testing.T) {
	joined, began := now.Add(-48*time.Hour), now.Add(-90*time.Minute)
	condition := func(kind string) func(*fleet.Report) {
		return func(r *fleet.Report) {
			r.Conditions = []runtime.Condition{{Type: "Other", Status: "True"}, {Type: kind, Status: "True", LastTransitionTime: began}}
		}
	}
	for name, test := range map[string]struct {
		report *fleet.Report
		query  fleet.Query
		want   time.Time
	}{
		"never reported":         {nil, fleet.Query{}, joined},
		"no sets of the API yet": {ready(func(r *fleet.Report) { r.FirstSync = time.Time{} }), fleet.Query{}, joined},
		"silent":                 {ready(nil), fleet.Query{Stale: time.Second}, now.Add(-time.Minute)},
		"pulling":                {incomplete(condition(runtime.ProgressingCondition)), fleet.Query{}, began},
		"failed":                 {incomplete(condition(runtime.DegradedCondition)), fleet.Query{}, began},
		"unknown":                {incomplete(nil), fleet.Query{}, time.Time{}},
		"another release":        {ready(condition(runtime.DegradedCondition)), fleet.Query{Release: pinset.ReleaseID{Name: "x"}}, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			test.query.Now = now
			nodes := []fleet.Node{{Name: "n", Report: test.report, Desired: map[string]int64{}, Created: joined}}
			s, err := fleet.Summarize(nodes, test.query)
			if err != nil || len(s.NotReady) != 1 {
				t.Fatalf("got %+v, %v; want a node that is not ready", s, err)
			}
			if got := s.NotReady[0].Nodes[0].Since; !got.Equal(test.want) {
				t.Errorf("got since %s, want %s", got, test.want)
			}
		})
	}
}
