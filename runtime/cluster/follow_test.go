package cluster_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/cluster"
)

const digest = "@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"

// api plays the part of an API server that fails on purpose. Tests with a real one are in fixtures/kube.
type api struct {
	*httptest.Server
	mu      sync.Mutex
	version int
	sets    []string      // names
	fail    func() int    // the code of an answer to a request for sets; 0 for a good one
	events  chan string   // of the watch of the sets; "" ends it
	watched chan struct{} // has a value once a watch has begun
	// terminating means that the CustomResourceDefinition is being removed.
	terminating bool
}

func serve(t *testing.T) *api {
	t.Helper()
	a := &api{version: 100, events: make(chan string), watched: make(chan struct{}, 1)}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	t.Cleanup(a.CloseClientConnections)
	return a
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	watching := r.URL.Query().Get("watch") != ""
	switch {
	case r.URL.Path == "/api/v1/nodes" && !watching:
		fmt.Fprint(w, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},`+
			`"items":[{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"n","labels":{}}}]}`)
	case r.URL.Path == "/api/v1/nodes":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case r.URL.Path == "/apis/machineconfiguration.openshift.io/v1":
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.terminating {
			fmt.Fprint(w, `{"resources":[{"name":"pinnedimagesets","verbs":["list"]}]}`)
			return
		}
		fmt.Fprint(w, `{"resources":[{"name":"pinnedimagesets","verbs":["create","list"]}]}`)
	case r.URL.Path == "/apis/machineconfiguration.openshift.io/v1/pinnedimagesets":
		a.serveSets(w, r, watching)
	default:
		http.NotFound(w, r)
	}
}

func (a *api) serveSets(w http.ResponseWriter, r *http.Request, watching bool) {
	a.mu.Lock()
	code := 0
	if a.fail != nil {
		code = a.fail()
	}
	if code != 0 {
		a.mu.Unlock()
		if code == http.StatusTooManyRequests {
			w.Header().Set("Retry-After", "1")
		}
		w.WriteHeader(code)
		return
	}
	if watching {
		a.mu.Unlock()
		w.(http.Flusher).Flush()
		select {
		case a.watched <- struct{}{}:
		default:
		}
		for {
			select {
			case <-r.Context().Done():
				return
			case event := <-a.events:
				if event == "" {
					return
				}
				fmt.Fprintln(w, event)
				w.(http.Flusher).Flush()
			}
		}
	}
	defer a.mu.Unlock()
	var items []string
	for _, name := range a.sets {
		items = append(items, a.object(name))
	}
	fmt.Fprintf(w, `{"kind":"PinnedImageSetList","apiVersion":"machineconfiguration.openshift.io/v1","metadata":`+
		`{"resourceVersion":"%d"},"items":[%s]}`, a.version, strings.Join(items, ","))
}

func (a *api) object(name string) string {
	return fmt.Sprintf(`{"kind":"PinnedImageSet","apiVersion":"machineconfiguration.openshift.io/v1","metadata":{"name":%q,`+
		`"uid":"u-%s","generation":1,"resourceVersion":"%d"},"spec":{"pinnedImages":[{"name":"quay.io/x/%s%s"}]}}`,
		name, name, a.version, name, digest)
}

// set changes what the API has.
func (a *api) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// follow follows the API, and returns what is known.
func follow(t *testing.T, a *api) (known func() cluster.Known) {
	t.Helper()
	return followInto(t, a, document(t), 0, nil)
}

// document is the name of a document. The follower, which ends with the test, may write it while its folder is removed.
func document(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "pinbox-test-cluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fixtures.Until(t, func() error { return os.RemoveAll(dir) }) })
	return filepath.Join(dir, "cluster.json")
}

// followInto follows the API with a document; heard, if any, runs with the channel of the changes.
func followInto(
	t *testing.T, a *api, file string, jitter time.Duration, heard func(<-chan struct{}),
) (known func() cluster.Known) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	config, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"contexts": []any{map[string]any{"name": "c", "context": map[string]any{"cluster": "c"}}},
		"clusters": []any{map[string]any{"name": "c", "cluster": map[string]any{"server": a.URL}}},
	})
	if err == nil {
		err = os.WriteFile(kubeconfig, config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	changes, err := cluster.Follow(t.Context(), cluster.Options{
		Kubeconfig: kubeconfig, Node: "N", File: file, Jitter: jitter, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if heard != nil {
		go heard(changes)
	}
	return func() cluster.Known {
		k, err := cluster.Read(file)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	fixtures.Until(t, func() error {
		if !is() {
			return errors.New("not: " + what)
		}
		return nil
	})
}

func TestMain(m *testing.M) {
	fixtures.Waiting(12) // for the pauses of a client
	m.Run()
}

func names(k cluster.Known) string {
	var all []string
	for _, s := range k.Sets {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// Answers that fail change nothing but the state, and what follows counts.
func TestFailingAnswers(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"500": 500, "403": 403} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t)
			a.sets = []string{"a"}
			known := follow(t, a)
			until(t, "the set is known", func() bool { return names(known()) == "a" && known().Registered })
			fixtures.Receive(t, "watch", a.watched)
			a.set(func() { a.fail = func() int { return code } })
			a.events <- "" // the watch ends
			until(t, "the state says it", func() bool { return known().State == cluster.Unreachable })
			if names(known()) != "a" {
				t.Errorf("got %s, want the set to stay", names(known()))
			}
			a.set(func() { a.fail, a.sets, a.version = nil, []string{"b"}, 101 })
			until(t, "the API answers", func() bool { return names(known()) == "b" })
			if k := known(); k.State != cluster.Current || k.Reason != "" {
				t.Errorf("got %s, %s, want current", k.State, k.Reason)
			}
		})
	}
}

// An API server that has too many requests says when to ask again.
func TestTooManyRequests(t *testing.T) {
	t.Parallel()
	a := serve(t)
	var times []time.Time
	a.fail = func() int {
		times = append(times, time.Now())
		if len(times) < 3 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	a.sets = []string{"a"}
	known := follow(t, a)
	until(t, "the set is known", func() bool { return names(known()) == "a" })
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range 2 {
		if wait := times[i+1].Sub(times[i]); wait < 900*time.Millisecond {
			t.Errorf("got the next request after %v, want it after the Retry-After of a second", wait)
		}
	}
}

// A watch whose resource version is too old is followed by a list. So is each other end of a watch: a gap loses
// nothing.
func TestWatchesEnd(t *testing.T) {
	t.Parallel()
	for name, event := range map[string]string{
		"410 Gone": `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410}}`,
		"500":      `{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","code":500}}`,
		"no JSON":  `{"type":`,
		"end":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := serve(t)
			a.sets = []string{"a", "b"}
			known := follow(t, a)
			until(t, "the sets are known", func() bool { return names(known()) == "a b" })
			// The reflector lists anyway after a watch without any event.
			a.events <- fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, a.object("a"))
			a.set(func() { a.sets, a.version = []string{"b", "c"}, 101 }) // without an event
			a.events <- event
			if event != "" {
				a.events <- "" // the server ends the watch after an error
			}
			until(t, "the sets of the new list", func() bool { return names(known()) == "b c" })
			if k := known(); k.State != cluster.Current || len(k.Kept()) > 0 {
				t.Errorf("got %s and %v kept, want current and none", k.State, k.Kept())
			}
		})
	}
}

// Events change the sets. A deletion counts once it is known that the API goes on to serve sets.
func TestEvents(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.sets = []string{"a"}
	known := follow(t, a)
	until(t, "the set is known", func() bool { return names(known()) == "a" })
	event := func(kind, name string) { a.events <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, a.object(name)) }
	event("ADDED", "b")
	until(t, "a set is added", func() bool { return names(known()) == "a b" })
	event("DELETED", "a")
	event("DELETED", "b")
	event("ADDED", "b") // made again, before its deletion counted
	until(t, "a set is deleted", func() bool { return names(known()) == "b" })
	a.set(func() { a.terminating = true })
	event("DELETED", "b")
	until(t, "the definition is being removed", func() bool { return known().State == cluster.NotServed })
	if k := known(); names(k) != "b" || len(k.Kept()) != 1 {
		t.Errorf("got %s, want b to be kept", names(k))
	}
}

// One set that is not as others are stays out, and stops no other one: a set for a canary pool stopped the fleet.
func TestOddSetStopsNoOthers(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.sets = []string{"a"}
	known := follow(t, a)
	until(t, "the set is known", func() bool { return names(known()) == "a" })
	odd := func(kind, old, text string) {
		object := strings.Replace(a.object("odd"), old, text, 1)
		a.events <- fmt.Sprintf(`{"type":%q,"object":%s}`, kind, object)
	}
	odd("ADDED", "quay.io/x/odd", "quay.io/x/"+strings.Repeat("o", 500))
	until(t, "the reason is known", func() bool { return len(known().Refused) == 1 })
	if k := known(); names(k) != "a" || k.State != cluster.Current || !strings.HasPrefix(k.Refused[0], "odd: ") {
		t.Errorf("got %s, %s, %q; want a, current and the reason", names(k), k.State, k.Refused)
	}
	odd("MODIFIED", `"uid"`, `"annotations":{"pinbox.dev/store":"https://x\n/"},"uid"`)
	until(t, "the set is known without its store", func() bool { return names(known()) == "a odd" })
	if k := known(); len(k.Refused) > 0 || !strings.HasPrefix(k.Sets[1].Store, "not valid: ") {
		t.Errorf("got %q and the store %q, want a store that cannot be had", k.Refused, k.Sets[1].Store)
	}
	odd("MODIFIED", "quay.io/x/odd", "quay.io/x/"+strings.Repeat("o", 500))
	until(t, "the reason is known again", func() bool { return len(known().Refused) == 1 })
	a.events <- fmt.Sprintf(`{"type":"ADDED","object":%s}`, a.object("b"))
	until(t, "another set is known", func() bool { return names(known()) == "a b odd" })
}

// More sets than the API's own limit change nothing.
func TestTooManySets(t *testing.T) {
	t.Parallel()
	a := serve(t)
	for i := range cluster.MaxSets + 1 {
		a.sets = append(a.sets, fmt.Sprintf("s%d", i))
	}
	known := follow(t, a)
	until(t, "the state says it", func() bool { return strings.Contains(known().Reason, "5001 sets, more than 5000") })
	if k := known(); k.Listed() || len(k.Sets) > 0 {
		t.Errorf("got %d sets, want none of them", len(k.Sets))
	}
}

// A document that cannot be read, as after an error of the disk, is replaced by what the API has.
func TestUnreadableDocument(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.sets = []string{"a"}
	file := document(t)
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	known := followInto(t, a, file, 0, nil)
	until(t, "the set is known", func() bool { return names(known()) == "a" })
}

// A kubeconfig that is written later, as the kubelet's at the first boot, is found. Until then the sets are unknown.
func TestNoKubeconfigYet(t *testing.T) {
	t.Parallel()
	file := document(t)
	if _, err := cluster.Follow(t.Context(), cluster.Options{
		Kubeconfig: filepath.Join(t.TempDir(), "none"), File: file, Log: slog.New(slog.DiscardHandler),
	}); err != nil {
		t.Fatal(err)
	}
	k, err := cluster.Read(file)
	if err != nil || k.Listed() || k.State != cluster.Unreachable || k.Since.IsZero() {
		t.Errorf("got %+v, %v, want a document that says that nothing is known", k, err)
	}
}

// With jitter, nodes do not all hear of a change at once.
func TestJitter(t *testing.T) {
	t.Parallel()
	a := serve(t)
	a.sets = []string{"a"}
	const nodes, jitter = 8, 2 * time.Second
	heard := make(chan time.Duration, nodes)
	for range nodes {
		file := document(t)
		start := time.Now()
		followInto(t, a, file, jitter, func(changes <-chan struct{}) {
			<-changes
			heard <- time.Since(start)
		})
	}
	first, last := time.Hour, time.Duration(0)
	for range nodes {
		took := <-heard
		first, last = min(first, took), max(last, took)
	}
	if last-first < jitter/20 {
		t.Errorf("got all changes between %v and %v, want them apart", first, last)
	}
}
