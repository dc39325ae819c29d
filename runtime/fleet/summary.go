package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Node is a node of the fleet, and what is known of it.
type Node struct {
	Name string
	// Report is nil if the node has never reported.
	Report *Report
	// Desired are the generations of the sets that the API has for the node; nil if only its report is known.
	Desired map[string]int64
	// Created is when the node joined; zero if only its report is known.
	Created time.Time
	// Broken is why the file with this name, which may be a report, cannot be read; nil if it was.
	Broken error
}

// Query says what a node must have to be ready.
type Query struct {
	// Set is the name of the only set that counts; "" means all of each node, and nothing else wrong.
	Set string
	// Release must be current on the node; of a release without a number any of the appliance counts. A zero one does not
	// count.
	Release pinset.ReleaseID
	// Stale is how long ago a node may have reported; 0 means at any time.
	Stale time.Duration
	Now   time.Time
}

// Summary is what the reports of many nodes say together.
type Summary struct {
	Time  time.Time `json:"time"`
	Nodes int       `json:"nodes"`
	Ready int       `json:"ready"`
	// BytesToGo of all nodes, and ETA, when the last of those that pull will be done; zero if that is unknown.
	BytesToGo int64     `json:"bytesToGo"`
	ETA       time.Time `json:"eta,omitzero"`
	NotReady  []Reason  `json:"notReady"`
	// ReadyNodes are the names of the others.
	ReadyNodes []string      `json:"readyNodes"`
	Sets       []SetCount    `json:"sets"`
	Releases   []StoreCount  `json:"releases"`
	Programs   []ProgramName `json:"programs"`
	// Reports say how old the report of each node is, by the names of the nodes.
	Reports []NodeReport `json:"reports"`
	// Wanted are images that pods wanted and nodes did not have, by their names.
	Wanted []WantedCount `json:"wanted,omitempty"`
}

// NodeReport is the last report of a node.
type NodeReport struct {
	Node string `json:"node"`
	// Time is zero if the node has never reported.
	Time time.Time `json:"time,omitzero"`
	// Release is the current one; zero if there is none.
	Release pinset.ReleaseID `json:"release,omitzero"`
	// Reason is why the node is not ready; "" if it is.
	Reason string `json:"reason,omitempty"`
	// Next is what a courier has to bring or to do; "" for nothing.
	Next string `json:"next,omitempty"`
}

// Reason has the nodes that are not ready for one reason: a class of errors, or one of the constants below.
type Reason struct {
	Reason string     `json:"reason"`
	Nodes  []NodeText `json:"nodes"`
}

// NodeText says what is wrong with a node.
type NodeText struct {
	Node      string `json:"node"`
	Text      string `json:"text,omitempty"`
	BytesToGo int64  `json:"bytesToGo,omitempty"`
	// Since is when it began, and ETA when the node's pulls will be done; zero if that is unknown.
	Since time.Time `json:"since,omitzero"`
	ETA   time.Time `json:"eta,omitzero"`
}

// Reasons that are no classes of errors.
const (
	NeverReported = "never reported"
	Unreadable    = "a file that is no report"
	Ahead         = "reports a time that has not come"
	FirstSync     = "does not know the sets of the API yet"
	Silent        = "silent"
	Outdated      = "does not have the last generation yet"
	NoRelease     = "does not have the release"
	Pulling       = "pulling"
	Incomplete    = "incomplete"
)

// SetCount counts the nodes of a set.
type SetCount struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	Ready int    `json:"ready"`
}

// StoreCount counts the nodes whose current release is this one.
type StoreCount struct {
	pinset.ReleaseID
	Nodes int `json:"nodes"`
}

// ProgramName counts the nodes that run this pinbox-node: its version, or else its digest.
type ProgramName struct {
	Program string `json:"program"`
	Nodes   int    `json:"nodes"`
}

// WantedCount counts the nodes that miss an image.
type WantedCount struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
}

// ErrNoNodes means that no node is asked about.
var ErrNoNodes = fault.New(fault.Input, "no nodes", "check the name of the set, or the files of reports")

// AllReady reports that there is nothing to wait for.
func (s Summary) AllReady() bool { return s.Ready == s.Nodes }

// Summarize answers a query about nodes.
func Summarize(nodes []Node, q Query) (Summary, error) {
	s := Summary{Time: q.Now.UTC(), NotReady: []Reason{}, ReadyNodes: []string{}}
	sets, releases, programs := map[string]SetCount{}, map[pinset.ReleaseID]int{}, map[string]int{}
	reasons, missed := map[string][]NodeText{}, map[string]int{}
	for _, n := range nodes {
		if !n.has(q.Set) {
			continue
		}
		s.Nodes++
		reason, text := n.problem(q)
		report := NodeReport{Node: n.Name, Reason: reason, Next: n.next(reason, q)}
		if reason == "" {
			s.Ready++
			s.ReadyNodes = append(s.ReadyNodes, n.Name)
		} else {
			reasons[reason] = append(reasons[reason], n.text(reason, text))
		}
		n.countSets(sets, q)
		if n.Report == nil {
			s.Reports = append(s.Reports, report)
			continue
		}
		report.Time = n.Report.Time
		s.BytesToGo += min(n.Report.BytesToGo, math.MaxInt64-s.BytesToGo) // a report may have any number
		if n.Report.ETA.After(s.ETA) && !n.Report.Time.After(q.Now.Add(clockError)) && n.Report.Pulling() {
			s.ETA = n.Report.ETA
		}
		if release, found := n.Report.release(); found {
			releases[release]++
			report.Release = release
		}
		s.Reports = append(s.Reports, report)
		programs[n.Report.Pinbox]++
		for _, img := range n.Report.Wanted {
			missed[img.Name]++
		}
	}
	if s.Nodes == 0 && q.Set != "" {
		return s, fmt.Errorf("%w have the set %s", ErrNoNodes, q.Set)
	}
	if s.Nodes == 0 {
		return s, ErrNoNodes
	}
	slices.Sort(s.ReadyNodes)
	slices.SortFunc(s.Reports, func(a, b NodeReport) int { return cmp.Compare(a.Node, b.Node) })
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		slices.SortFunc(reasons[reason], func(a, b NodeText) int { return cmp.Compare(a.Node, b.Node) })
		s.NotReady = append(s.NotReady, Reason{reason, reasons[reason]})
	}
	s.Sets = slices.SortedFunc(maps.Values(sets), func(a, b SetCount) int { return cmp.Compare(a.Name, b.Name) })
	for release, n := range releases {
		s.Releases = append(s.Releases, StoreCount{release, n})
	}
	slices.SortFunc(s.Releases, func(a, b StoreCount) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Number, b.Number))
	})
	for _, program := range slices.Sorted(maps.Keys(programs)) {
		s.Programs = append(s.Programs, ProgramName{program, programs[program]})
	}
	for _, name := range slices.Sorted(maps.Keys(missed)) {
		s.Wanted = append(s.Wanted, WantedCount{name, missed[name]})
	}
	return s, nil
}

// has reports whether the query is about the node.
func (n Node) has(set string) bool {
	if set == "" {
		return true
	}
	_, desired := n.Desired[set]
	_, reported := n.set(set)
	return desired || reported && n.Desired == nil
}

// set finds a set in the report.
func (n Node) set(name string) (SetReport, bool) {
	if n.Report == nil {
		return SetReport{}, false
	}
	i := slices.IndexFunc(n.Report.Sets, func(s SetReport) bool { return s.Name == name })
	if i < 0 {
		return SetReport{}, false
	}
	return n.Report.Sets[i], true
}

// text is what is known of a node that is not ready.
func (n Node) text(reason, text string) NodeText {
	t := NodeText{Node: n.Name, Text: text}
	r := n.Report
	if r == nil {
		t.Since = n.Created
		return t
	}
	if reason == Ahead { // none of its times counts
		return t
	}
	t.BytesToGo = r.BytesToGo
	switch reason {
	case Silent:
		t.Since = r.Time
	case FirstSync:
		t.Since = n.Created
	case Outdated, NoRelease: // the node does not know
	case Pulling:
		t.Since, t.ETA = r.since(runtime.ProgressingCondition), r.ETA
	default:
		t.Since = r.since(runtime.DegradedCondition)
	}
	return t
}

// since is when a condition became true; zero if it is not.
func (r Report) since(condition string) time.Time {
	for _, c := range r.Conditions {
		if c.Type == condition && c.Status == "True" {
			return c.LastTransitionTime
		}
	}
	return time.Time{}
}

// problem is why a node is not ready; "" if it is.
func (n Node) problem(q Query) (reason, text string) {
	r := n.Report
	switch {
	case n.Broken != nil:
		return Unreadable, n.Broken.Error()
	case r == nil:
		return NeverReported, ""
	case r.Time.After(q.Now.Add(clockError)):
		return Ahead, r.Time.UTC().Format(time.RFC3339)
	case n.Desired != nil && r.FirstSync.IsZero():
		return FirstSync, ""
	case q.Stale > 0 && q.Now.Sub(r.Time) > q.Stale:
		return Silent, "since " + r.Time.UTC().Format(time.RFC3339)
	}
	if release, _ := r.release(); q.Release.Name != "" && release != q.Release &&
		(q.Release.Number > 0 || release.Name != q.Release.Name) {
		return NoRelease, ""
	}
	for _, name := range slices.Sorted(maps.Keys(n.Desired)) {
		set, found := n.set(name)
		if (q.Set == "" || q.Set == name) && (!found || set.DesiredGeneration < n.Desired[name]) {
			return Outdated, fmt.Sprintf("set %s: generation %d of %d", name, set.DesiredGeneration, n.Desired[name])
		}
	}
	if set, found := n.set(q.Set); found && set.ready() || q.Set == "" && r.Ready {
		return "", ""
	}
	return n.failure(q.Set)
}

// failure is what the report says is wrong, with a set or with anything.
func (n Node) failure(set string) (reason, text string) {
	r := n.Report
	s, _ := n.set(set)
	switch {
	case r.Pulling():
		return Pulling, ""
	case len(r.Failures) > 0:
		f := r.Failures[0]
		return f.Class, fmt.Sprintf("%s: %s", f.Image, f.Error)
	case s.LastFailedGenerationError != "":
		return Incomplete, s.LastFailedGenerationError
	case len(r.Errors) > 0 && slices.ContainsFunc(r.Conditions, func(c runtime.Condition) bool {
		return c.Reason == runtime.NoSets
	}):
		return runtime.NoSets, r.Errors[0]
	case len(r.Errors) > 0:
		return Incomplete, r.Errors[0]
	}
	return Incomplete, fmt.Sprintf("%d of %d images are pinned", r.Images.Pinned, r.Images.Total)
}

// next is what a site needs whose node is not ready for a reason, or has pods that want more images.
func (n Node) next(reason string, q Query) string {
	var all []string
	switch r := n.Report; {
	case r == nil || reason == Ahead || reason == Silent:
		return "a new report"
	case reason == string(runtime.Space) || slices.ContainsFunc(r.Failures, func(f Failure) bool {
		return f.Class == string(runtime.Space)
	}):
		all = append(all, "more space, which no stick brings")
	case reason == NoRelease:
		all = append(all, q.Release.Title())
	case reason == runtime.NoSets:
		all = append(all, "a release")
	case reason != "" && r.BytesToGo > 0:
		all = append(all, bytesize.Format(r.BytesToGo)+" of images")
	}
	if wanted := len(n.Report.Wanted); wanted > 0 {
		all = append(all, fmt.Sprintf("a release with what its pods want (%d)", wanted))
	}
	return strings.Join(all, "; ")
}

// countSets counts the node for its sets.
func (n Node) countSets(counts map[string]SetCount, q Query) {
	names := slices.Collect(maps.Keys(n.Desired))
	if n.Report != nil {
		for _, s := range n.Report.Sets {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if q.Set != "" && q.Set != name {
			continue
		}
		c := counts[name]
		c.Name = name
		c.Nodes++
		if set, found := n.set(name); found && set.ready() && set.DesiredGeneration >= n.Desired[name] {
			c.Ready++
		}
		counts[name] = c
	}
}

// ready reports that every image of the set is pinned.
func (s SetReport) ready() bool { return s.Pinned == s.Images && s.LastFailedGeneration == 0 }

// release is the current one of the node's stores.
func (r Report) release() (pinset.ReleaseID, bool) {
	for _, s := range r.Stores {
		if s.Current {
			return pinset.ReleaseID{Name: s.Name, Number: s.Release}, true
		}
	}
	return pinset.ReleaseID{}, false
}
