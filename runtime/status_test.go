package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/pinset"
)

func image(name string) pinset.Image {
	return pinset.Image{Repository: "quay.io/x/" + name, Digest: digest.FromString(name)}
}

func set(name string, images ...pinset.Image) pinset.Set {
	return pinset.Set{Name: name, Images: images}
}

// testReport is a report of these sets, and of present images with whether they are pinned.
func testReport(present map[pinset.Image]bool, sets ...pinset.Set) report {
	r := report{nodeState: nodeState{sets: sets, want: pinset.Union(sets...), present: map[string]bool{}}, node: "node12"}
	r.pins = r.want
	for img, pinned := range present {
		r.present[img.String()] = pinned
	}
	return r
}

func TestStatus(t *testing.T) {
	a, b, c := image("a"), image("b"), image("c")
	worker, infra := set("worker", b, a), set("infra", b, c)
	broken := errors.Join(&pinset.FileError{File: "x.yaml", Revision: "sha256:1", Err: errors.New("x.yaml:1: broken")})
	for name, test := range map[string]struct {
		report  report
		change  func(*report)
		healthy bool
		want    []string // texts of the errors
	}{
		"all pinned":   {testReport(map[pinset.Image]bool{a: true, b: true, c: true}, worker, infra), nil, true, nil},
		"other images": {testReport(map[pinset.Image]bool{a: true, b: true, c: false}, worker), nil, true, nil},
		"no sets":      {testReport(nil), nil, true, nil},
		"one missing": {
			testReport(map[pinset.Image]bool{a: true, b: true}, worker, infra), nil, false, []string{
				c.String() + " is not on the node",
			},
		},
		"one not pinned": {
			testReport(map[pinset.Image]bool{a: true, b: false}, worker), nil, false, []string{b.String() + " is not pinned"},
		},
		"an invalid file": {testReport(map[pinset.Image]bool{a: true, b: true}, worker),
			func(r *report) { r.broken = broken }, false, []string{"x.yaml:1: broken"}},
		"no folder of sets": {
			testReport(nil), func(r *report) { r.broken = errors.New("open sets.d: no such file") }, false, []string{"open sets.d"},
		},
		"no sets where some are meant to be": {
			testReport(nil), func(r *report) { r.broken = ErrNoSets }, false, []string{"the node has no sets"},
		},
		"one failed": {testReport(map[pinset.Image]bool{a: true}, worker),
			func(r *report) {
				r.faults = map[pinset.Image]Fault{b: {Auth, "401"}}
			}, false, []string{b.String() + ": auth: 401"}},
		"a problem": {testReport(map[pinset.Image]bool{a: true, b: true}, worker),
			func(r *report) { r.problems = []error{errors.New("99-admin overrides")} }, false, []string{"99-admin overrides"}},
		"no answer of CRI-O": {testReport(nil, worker),
			func(r *report) {
				r.present, r.problems = nil, []error{errors.New("CRI-O does not answer")}
			}, false, []string{"CRI-O does not answer"}},
	} {
		t.Run(name, func(t *testing.T) {
			if test.change != nil {
				test.change(&test.report)
			}
			s := test.report.status(Status{}, time.Now())
			if s.Healthy() != test.healthy || s.Degraded() == test.healthy {
				t.Errorf("got healthy %v, want %v: %+v", s.Healthy(), test.healthy, s.Conditions)
			}
			if want := errors.Is(test.report.broken, ErrNoSets); s.NoSets() != want {
				t.Errorf("got %+v, want the reason NoSets: %v", s.Conditions, want)
			}
			for _, want := range test.want {
				if got := errorTexts(s); !strings.Contains(got, want) {
					t.Errorf("got %q, want %q", got, want)
				}
			}
			unknown := test.report.present == nil
			for _, state := range imageStates(s) {
				if (state == Unknown) != unknown {
					t.Errorf("got state %v, want an unknown one: %v", state, unknown)
				}
			}
		})
	}
}

// errorTexts are the errors of the status and of its sets.
func errorTexts(s Status) string {
	text := strings.Join(s.Errors, "\n")
	for _, set := range s.Sets {
		text += "\n" + set.LastFailedGenerationError
	}
	return text
}

func imageStates(s Status) (all []State) {
	for _, i := range s.Images {
		all = append(all, i.State)
	}
	return all
}

// An image of two sets is listed once, and counts in both sets.
func TestImageOfTwoSets(t *testing.T) {
	a, b := image("a"), image("b")
	s := testReport(map[pinset.Image]bool{b: true}, set("one", b, a), set("two", b)).status(Status{}, time.Now())
	if len(s.Images) != 2 || s.Images[0].State != Missing || s.Images[1].State != Pinned || len(s.Images[1].Sets) != 2 {
		t.Errorf("got images %+v, want a missing one, and a pinned one of two sets", s.Images)
	}
	one, two := s.Sets[0], s.Sets[1]
	if one.Images != 2 || one.Pinned != 1 || one.Missing != 1 || one.LastFailedGeneration == "" || two.Images != 1 ||
		two.Pinned != 1 || two.LastFailedGenerationError != "" {
		t.Errorf("got sets %+v, want 1 of 2 images pinned in the first, 1 of 1 in the second", s.Sets)
	}
}

// The generations are as in a MachineConfigNode: the desired one, the last complete one, and the
// last one with an error.
func TestSetGenerations(t *testing.T) {
	a, b := image("a"), image("b")
	v1, v2 := set("s", a), set("s", a, b)
	v1.Generation, v2.Generation = 1, 2
	all := map[pinset.Image]bool{a: true}
	s := testReport(all, v1).status(Status{}, time.Now())
	check := func(when string, s Status, want SetStatus) {
		t.Helper()
		got := s.Sets[0]
		if got.CurrentGeneration != want.CurrentGeneration || got.DesiredGeneration != want.DesiredGeneration ||
			got.LastFailedGeneration != want.LastFailedGeneration ||
			(got.LastFailedGenerationError != "") != (want.LastFailedGeneration != "") {
			t.Errorf("%s: got %+v, want %+v", when, got, want)
		}
	}
	check("complete", s, SetStatus{CurrentGeneration: "1", DesiredGeneration: "1"})
	next := testReport(all, v2)
	next.working = true
	s = next.status(s, time.Now())
	check("the next one is being pulled", s, SetStatus{CurrentGeneration: "1", DesiredGeneration: "2"})
	next.working, next.faults = false, map[pinset.Image]Fault{b: {NotFound, "404"}}
	s = next.status(s, time.Now())
	check("after a failure", s, SetStatus{CurrentGeneration: "1", DesiredGeneration: "2", LastFailedGeneration: "2"})
	next.working, next.faults = true, nil
	s = next.status(s, time.Now())
	check("during a retry", s, SetStatus{CurrentGeneration: "1", DesiredGeneration: "2", LastFailedGeneration: "2"})
	all[b] = true
	s = testReport(all, v2).status(s, time.Now())
	check("complete again", s, SetStatus{CurrentGeneration: "2", DesiredGeneration: "2"})
	plain := set("s", a)
	if r := testReport(all, plain).status(s, time.Now()).Sets[0]; !strings.HasPrefix(r.DesiredGeneration, "sha256:") ||
		r.CurrentGeneration != r.DesiredGeneration {
		t.Errorf("a set without a generation: got %+v, want hashes", r)
	}
}

// Progressing and Degraded are never both true, and a retry of a failed pull does not change the
// conditions.
func TestConditions(t *testing.T) {
	a, b := image("a"), image("b")
	var s Status
	step := func(when string, r report, progressing, degraded bool) {
		t.Helper()
		at := time.Now()
		before := s
		r.before = s
		s = r.status(s, at)
		if s.is(ProgressingCondition) != progressing || s.Degraded() != degraded {
			t.Errorf("%s: got progressing %v, degraded %v, want %v, %v", when, s.is(ProgressingCondition), s.Degraded(),
				progressing, degraded)
		}
		for i, c := range s.Conditions {
			if len(before.Conditions) > 0 && before.Conditions[i].Status == c.Status &&
				!c.LastTransitionTime.Equal(before.Conditions[i].LastTransitionTime) {
				t.Errorf("%s: got a new transition time of %s, want the old one, as its status is the same", when, c.Type)
			}
		}
	}
	working := func(r report, pulls ...pinset.Image) report {
		r.working = true
		for _, img := range pulls {
			r.pulls = append(r.pulls, Pull{Image: img})
		}
		return r
	}
	failed := func(r report, img pinset.Image, class Class) report {
		r.faults = map[pinset.Image]Fault{img: {class, "text"}}
		return r
	}
	one, two := set("s", a), set("s", a, b)
	none, first := map[pinset.Image]bool{}, map[pinset.Image]bool{a: true}
	step("pulling", working(testReport(none, one), a), true, false)
	step("failed", failed(testReport(none, one), a, Network), false, true)
	step("retry", working(testReport(none, one), a), false, true)
	step("failed again", failed(testReport(none, one), a, Network), false, true)
	done := working(testReport(first, two), a, b)
	done.done = 1
	step("one is pulled", done, true, false)
	step("the other failed", failed(testReport(first, two), b, Space), false, true)
	step("there is space again", working(testReport(first, two), b), true, false)
	step("complete", testReport(map[pinset.Image]bool{a: true, b: true}, two), false, false)
	step("a set changes", working(testReport(map[pinset.Image]bool{a: true, b: true}, one)), true, false)
	step("an image was removed", failed(testReport(none, one), a, Network), false, true)
	newer := one
	newer.Generation = 2
	step("the set changes, the image does not", working(testReport(none, newer), a), true, false)
}

// The bytes to fetch are those of images that are not in a store.
func TestBytesOfImages(t *testing.T) {
	a, b, c := image("a"), image("b"), image("c")
	r := testReport(map[pinset.Image]bool{a: true}, set("s", a, b, c))
	r.running = map[pinset.Image]bool{b: true}
	for _, img := range []pinset.Image{a, b, c} {
		r.pulls = append(r.pulls, Pull{Image: img, Need: Need{Fetch: 7}})
	}
	images := r.status(Status{}, time.Now()).Images
	for i, want := range []ImageStatus{{State: Pinned}, {State: Pulling, Bytes: 7}, {State: Missing, Bytes: 7}} {
		if got := images[i]; got.State != want.State || got.Bytes != want.Bytes {
			t.Errorf("got %+v, want %s, %d bytes", got, want.State, want.Bytes)
		}
	}
}

// While another process makes a pass, the images that it pulls are being pulled.
func TestContinueFromRunningPulls(t *testing.T) {
	a, b := image("a"), image("b")
	previous := Status{Images: []ImageStatus{{Name: a.String(), State: Pulling}, {Name: b.String(), State: Missing}}}
	for busy, want := range map[bool][]State{true: {Pulling, Missing}, false: {Missing, Missing}} {
		r := testReport(map[pinset.Image]bool{}, set("s", a, b)).continueFrom(previous, busy)
		if got := imageStates(r.status(previous, time.Now())); !slices.Equal(got, want) {
			t.Errorf("busy %v: got %v, want %v", busy, got, want)
		}
	}
}

// The status is for everybody on the node, and errors of CRI-O have URLs that an object store has signed.
func TestStatusHasNoSecrets(t *testing.T) {
	a := image("a")
	r := testReport(map[pinset.Image]bool{}, set("s", a))
	const text = "Get https://user:pass@cdn.example.com/blob?X-Amz-Signature=5ec3e7: EOF"
	r.faults, r.problems = map[pinset.Image]Fault{a: {Network, text}}, []error{errors.New(text)}
	r.tries = map[string]storeTry{"": {problem: text}}
	content, err := json.Marshal(r.status(Status{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(content), "cdn.example.com/blob"); n < 4 {
		t.Errorf("got the place %d times, want it in each error\n%s", n, content)
	}
	for _, secret := range []string{"5ec3e7", "pass"} {
		if strings.Contains(string(content), secret) {
			t.Errorf("got %q in the status\n%s", secret, content)
		}
	}
}

// CRI-O looks for the pause image by the name of its configuration alone.
func TestWarningOfThePauseImage(t *testing.T) {
	for name, c := range map[string]struct {
		pause   string
		present map[string]bool
		want    bool
	}{
		"there":                {"k8s/pause:3.10", map[string]bool{"k8s/pause:3.10": false}, false},
		"under another name":   {"k8s/pause:3.10", map[string]bool{"k8s/pause@sha256:1": true}, true},
		"not there":            {"k8s/pause:3.10", map[string]bool{}, true},
		"images are not known": {"k8s/pause:3.10", nil, false},
		"CRI-O names none":     {"", map[string]bool{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (nodeState{pause: c.pause, present: c.present}).warnings(); (len(got) == 1) != c.want {
				t.Errorf("got %q, want a warning: %v", got, c.want)
			}
		})
	}
}

// The drop-in is current if it has just the pins; it need not exist if there are none.
func TestDropInCurrent(t *testing.T) {
	a, b := []pinset.Image{image("a")}, []pinset.Image{image("b")}
	for name, c := range map[string]struct {
		pins, current []pinset.Image
		exact         bool
		want          bool
	}{
		"no pins, no file":       {nil, nil, false, true},
		"no pins, one in a file": {nil, a, true, false},
		"the pin":                {a, a, true, true},
		"the pin and a comment":  {a, a, false, false},
		"another pin":            {a, b, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := (nodeState{pins: c.pins, current: c.current, exact: c.exact}).dropInCurrent(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// Only a status of the current version without unknown fields is read.
func TestDecodeStatus(t *testing.T) {
	r := testReport(map[pinset.Image]bool{image("a"): true}, set("worker", image("a")))
	text, err := json.Marshal(r.status(Status{}, time.Unix(1, 0)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := DecodeStatus(bytes.NewReader(text)); err != nil || len(got.Images) != 1 {
		t.Errorf("got %+v, error %v, want a status with one image", got, err)
	}
	for name, c := range map[string]struct {
		version string
		newer   bool
	}{
		"newer":         {`"version":2,"stalls":[]`, true},
		"older":         {`"version":0`, false},
		"unknown field": {`"version":1,"stalls":[]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeStatus(strings.NewReader(strings.Replace(string(text), `"version":1`, c.version, 1)))
			if err == nil || errors.Is(err, pinset.ErrNewer) != c.newer {
				t.Errorf("got error %v, want one that is ErrNewer: %v", err, c.newer)
			}
		})
	}
}

const goodStatus = `{"version":1,"time":"2026-01-02T03:04:05Z","node":"n","runtime":"cri-o 1.34","owner":"pinbox","pools":["worker"],
	"conditions":[{"type":"T","status":"True","reason":"R","message":"a\\nb"}],
	"sets":[{"name":"worker","images":1,"pinned":0,"missing":1,"desiredGeneration":"1"}],
	"images":[{"name":"PIN","state":"missing","sets":["worker"],"bytes":5,"errorClass":"auth"}],
	"stores":[{"slot":"1","digest":"SHA","state":"mounted","images":1,"bytes":2,"verity":{"state":"verified"}}],
	"ownStore":{"state":"unverified"},"program":{"running":{"digest":"SHA","version":"v1.2.3"}},"progress":{"images":0,"ofImages":1,"bytes":0,"ofBytes":5},"unpinned":["x"],"latePulls":{"y":"2026-01-02T03:04:05Z"},"space":[{"path":"/v","bytes":9,"free":3}],"totals":{"pulledBytes":4,"pullFailures":{"auth":2}}}`

func fillStatus(text string) string {
	return strings.NewReplacer("PIN", image("a").String(), "SHA", digest.FromString("a").String()).Replace(text)
}

// A value that no pass writes is refused. The error has the entry and the field.
func TestInvalidStatus(t *testing.T) {
	if _, err := DecodeStatus(strings.NewReader(fillStatus(goodStatus))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"node":           {`"node":"n"`, `"node":"\u001b[2J"`, "node: "},
		"pool":           {`["worker"],`, `["\n"],`, "node: "},
		"owner":          {`"owner":"pinbox"`, `"owner":"x"`, `owner "x"`},
		"condition":      {`"reason":"R"`, `"reason":"\n"`, "conditions[0]: "},
		"set":            {`"name":"worker"`, `"name":"\n"`, "sets[0]: name: "},
		"counts":         {`"pinned":0`, `"pinned":-1`, "sets[0]: images 1, pinned -1"},
		"image":          {`"name":"PIN"`, `"name":"a"`, "images[0]: name: "},
		"state":          {`"state":"missing"`, `"state":"x"`, `images[0]: state "x"`},
		"class":          {`"auth"`, `"x"`, `images[0]: errorClass "x"`},
		"bytes":          {`"bytes":5`, `"bytes":-5`, "images[0]: bytes -5"},
		"its set":        {`"sets":["worker"]`, `"sets":["\n"]`, "images[0]: sets: "},
		"digest":         {`"SHA"`, `"` + strings.Repeat("a", 80) + `"`, "stores[0]: digest "},
		"store":          {`"state":"mounted"`, `"state":"x"`, `stores[0]: state "x"`},
		"slot":           {`"slot":"1"`, `"slot":"\n"`, "stores[0]: slot: "},
		"size":           {`"bytes":2`, `"bytes":-2`, "stores[0]: images 1, bytes -2"},
		"its verity":     {`"verified"`, `"x"`, `stores[0]: verity: state "x"`},
		"own store":      {`"unverified"`, `"x"`, `ownStore: verity: state "x"`},
		"program":        {`"version":"v1.2.3"`, `"version":"\n"`, "program: version"},
		"progress":       {`"ofBytes":5`, `"ofBytes":-5`, "progress: "},
		"unpinned":       {`"unpinned":["x"]`, `"unpinned":["\n"]`, "unpinned: "},
		"late pull":      {`"y"`, `"\n"`, "latePulls: "},
		"space":          {`"free":3`, `"free":-3`, "space[0]: "},
		"path":           {`"/v"`, `"\u001b"`, "space[0]: path"},
		"pulled":         {`"pulledBytes":4`, `"pulledBytes":-4`, "totals: pulledBytes"},
		"pull failures":  {`{"auth":2}`, `{"x":2}`, "totals: pullFailures"},
		"something else": {`"unpinned":["x"]`, `"unpinned":1`, "cannot unmarshal"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodStatus, c.old, c.new, 1)
			if text == goodStatus {
				t.Fatal("the case changes nothing")
			}
			if _, err := DecodeStatus(strings.NewReader(fillStatus(text))); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// A status that can be read can be shown, and written again.
func FuzzReadStatus(f *testing.F) {
	f.Add([]byte(fillStatus(goodStatus)))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := DecodeStatus(bytes.NewReader(text))
		if err != nil {
			return
		}
		_ = s.Summary() + s.Reason()
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeStatus(bytes.NewReader(again)); err != nil {
			t.Errorf("got %v for a status that was written again, want no error", err)
		}
	})
}

// Images that pods wanted are missed until the node has them, or a set does; so is the one that each pod needs.
func TestMissedImages(t *testing.T) {
	now := time.Unix(1_700_000_000, 0).UTC()
	a, b := image("a"), image("b")
	const tag, pause = "quay.io/x/tag:1", "registry.k8s.io/pause:3.10"
	logged := []wanted.Image{
		{Name: a.String(), Since: now, Last: now, Times: 3}, {Name: b.String(), Last: now}, {Name: tag, Last: now},
	}
	for name, c := range map[string]struct {
		change func(*report)
		want   []string
	}{
		"a node without them":   {func(*report) {}, []string{a.String(), b.String(), tag}},
		"CRI-O lists no images": {func(r *report) { r.present = nil }, []string{a.String(), b.String(), tag}},
		"one is there":          {func(r *report) { r.present[tag] = false }, []string{a.String(), b.String()}},
		"a set has one":         {func(r *report) { r.want = []pinset.Image{a} }, []string{b.String(), tag}},
		"no pause image":        {func(r *report) { r.pause = pause }, []string{a.String(), b.String(), tag, pause}},
		"a pause image":         {func(r *report) { r.pause, r.present[pause] = pause, true }, []string{a.String(), b.String(), tag}},
		"a pause image was logged": {func(r *report) {
			r.pause, r.wanted = pause, []wanted.Image{{Name: pause, Last: now}}
		}, []string{pause}},
	} {
		t.Run(name, func(t *testing.T) {
			r := testReport(nil)
			r.wanted = logged
			c.change(&r)
			var got []string
			for _, img := range r.status(Status{}, now).Wanted {
				got = append(got, img.Name)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
