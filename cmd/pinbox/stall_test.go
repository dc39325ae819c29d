package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// answer of a registry, whose content is body.
type answer func(w http.ResponseWriter, r *http.Request, body []byte)

// sends the first bytes at once, and of the rest so many at a time.
func sends(first, each int, pause time.Duration) answer {
	return func(w http.ResponseWriter, r *http.Request, body []byte) {
		if from, ok := strings.CutPrefix(r.Header.Get("Range"), "bytes="); ok {
			from, _, _ = strings.Cut(from, "-")
			offset, err := strconv.Atoi(from)
			if err != nil {
				panic(err)
			}
			body = body[offset:]
			w.WriteHeader(http.StatusPartialContent)
		}
		for n := max(first, each); len(body) > 0; n = each {
			sent, err := w.Write(body[:min(n, len(body))])
			if err != nil {
				return
			}
			w.(http.Flusher).Flush()
			body = body[sent:]
			select {
			case <-r.Context().Done():
				return
			// How fast a registry is, is what pinbox measures; package storage tests its limits in bubbles of synctest.
			case <-time.After(pause):
			}
		}
	}
}

// rangeless knows no ranges.
func rangeless(to answer) answer {
	return func(w http.ResponseWriter, r *http.Request, body []byte) {
		r.Header.Del("Range")
		to(w, r, body)
	}
}

// silent keeps the connection and answers nothing.
func silent(_ http.ResponseWriter, r *http.Request, _ []byte) { <-r.Context().Done() }

// stalling is how a registry behaves, and what is to come of it.
type stalling struct {
	part    string   // of the path
	least   int      // bytes of what is answered so
	answers []answer // one after the other; nil is the right one, and the last stays
	flag    string
	asked   int32 // at least
	// The message, empty without an error, and the number of fetched bytes in it.
	want []string
	here [2]int // at least and at most
}

// stalls are with a limit for --stall, while a byte comes every tenth of a second; a link that is
// slow is no stall.
func stalls(limit time.Duration) map[string]stalling {
	const part = layerSize / 4
	const often = 100 * time.Millisecond
	drips, comes, slow := sends(1, 1, often), sends(1, layerSize, 0), sends(1, layerSize/20, limit/12)
	burst := sends(part, 1, often) // a quarter, and then it drips
	is := func(texts ...string) []string {
		return append(texts, "connection stalled: HOST ", "hint: run the command again")
	}
	dripped := int(3 * limit / often)
	bursts, few := [2]int{part, part + dripped + 100}, [2]int{2, dripped + 3}
	return map[string]stalling{
		"a blob drips": {
			"/blobs/", part, []answer{burst, drips}, "", 2, is("layer sha256:", "fewer than 16 bytes per second, for "+limit.String()),
			bursts,
		},
		"a blob drips, without a cache": {"/blobs/", part, []answer{burst, drips}, "--no-cache", 2, is(), bursts},
		"a blob never comes":            {"/blobs/", part, []answer{silent}, "", 2, is("layer sha256:"), [2]int{}},
		"a config drips":                {"/blobs/", 0, []answer{drips}, "", 2, is("resolve HOST/test/image@sha256:"), few},
		"a manifest never comes": {
			"/manifests/", 0, []answer{silent}, "", 2,
			is("resolve HOST/test/image@sha256:", " has not answered within "+limit.String()), [2]int{},
		},
		"nothing ever comes": {"/v2/", 0, []answer{silent}, "", 2, is(), [2]int{}},

		"a blob drips several times":         {"/blobs/", part, []answer{burst}, "", 4, nil, [2]int{}},
		"a blob drips once":                  {"/blobs/", part, []answer{burst, comes}, "", 2, nil, [2]int{}},
		"a blob drips once, without a cache": {"/blobs/", part, []answer{burst, comes}, "--no-cache", 2, nil, [2]int{}},
		"a blob drips once, without ranges":  {"/blobs/", part, []answer{burst, rangeless(comes)}, "", 2, nil, [2]int{}},
		"a slow link":                        {"/blobs/", part, []answer{slow}, "", 1, nil, [2]int{}},
		// The bytes before the range are too slow, and are not counted as progress.
		"a slow link, without ranges": {
			"/blobs/", part, []answer{sends(3*part, 1, often), rangeless(slow)}, "", 2, nil, [2]int{},
		},
	}
}

// layerSize is about that of the layer, which cannot be compressed.
const layerSize = 200_000

// A registry that sent a byte every five seconds, or never answered, kept a build waiting
// for ever without a word.
func TestRegistryStalls(t *testing.T) {
	t.Parallel()
	noise := layer(t, sample.File("noise", string(randomBytes(layerSize))))
	for name := range stalls(time.Second) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			patiently(t, func(limit time.Duration) error { return stalls(limit)[name].run(t, noise, limit) })
		})
	}
}

// patiently runs a command with a short limit for --stall. A busy machine stalls as well: with a longer limit it does
// not.
func patiently(t *testing.T, run func(limit time.Duration) error) {
	t.Helper()
	for limit := 300 * time.Millisecond; ; limit *= 3 {
		err := run(limit)
		if err == nil {
			return
		}
		t.Logf("--stall %v: %v", limit, err)
		if limit > 20*time.Second {
			t.Fatal("got other results with each limit")
		}
	}
}

func (s stalling) run(t *testing.T, noise v1.Layer, limit time.Duration) error {
	t.Helper()
	var asked atomic.Int32
	var stalls atomic.Bool
	r := serve(t, damage(s.part, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		full := r.Clone(r.Context())
		full.Header.Del("Range")
		body := record(next, full)
		var answer answer
		if stalls.Load() && len(body) >= s.least {
			answer = s.answers[min(int(asked.Add(1)), len(s.answers))-1]
		}
		if answer == nil {
			next.ServeHTTP(w, r)
			return
		}
		answer(w, r, body)
	}))
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", noise))))
	stalls.Store(true)
	args := []string{
		"build", "--set", sets, "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o",
		filepath.Join(t.TempDir(), "out"), "--stall", limit.String(), "--cache-dir", t.TempDir(),
	}
	if s.flag != "" {
		args = append(args[:len(args)-2], s.flag)
	}
	want := fault.OK
	if s.want != nil {
		want = fault.Registry
	}
	code, _, stderr := pinbox(t.Context(), args...)
	if code != want || asked.Load() < s.asked {
		return fmt.Errorf("got exit code %d, want %d; got %d requests, want at least %d\n%s",
			code, want, asked.Load(), s.asked, stderr)
	}
	if strings.Count(stderr, "registry cannot be used") > 1 {
		return fmt.Errorf("got the message twice, want it once:\n%s", stderr)
	}
	texts := s.want
	if s.asked > 1 {
		texts = append(texts, "; asking again in ")
	}
	for _, text := range texts {
		if text = strings.ReplaceAll(text, "HOST", r.Host); !strings.Contains(stderr, text) {
			return fmt.Errorf("got\n%s\nwant %q", stderr, text)
		}
	}
	here := 0
	if m := regexp.MustCompile(`(\d+) of \d+ bytes fetched`).FindStringSubmatch(stderr); m != nil {
		here, _ = strconv.Atoi(m[1]) // digits
	}
	if here < s.here[0] || here > s.here[1] {
		return fmt.Errorf("got %d bytes, want %d to %d\n%s", here, s.here[0], s.here[1], stderr)
	}
	return nil
}

// Whoever waits for a registry can call that off.
func TestStallIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var broken atomic.Bool
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if broken.Load() {
			cancel()
			silent(w, r, nil)
			return
		}
		next.ServeHTTP(w, r)
	}))
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", layer(t, sample.File("a", "a"))))))
	broken.Store(true)
	// It would wait for minutes, twice.
	code, _, stderr := pinbox(ctx, "plan", "--set", sets, "--insecure-registry=127.0.0.1", "--stall", "10m")
	if code != fault.Interrupted {
		t.Errorf("got exit code %d, want %d\n%s", code, fault.Interrupted, stderr)
	}
}

func TestStallFlag(t *testing.T) {
	for value, output := range map[string]string{
		"0s": "--stall 0s: must be greater than 0", "-1s": "--stall -1s: must be greater than 0", "soon": "--stall",
	} {
		t.Run(value, func(t *testing.T) {
			if code, _, stderr := pinbox(t.Context(), "plan", "--image", "quay.example.com/a:1",
				"--stall="+value); code != fault.Usage || !strings.Contains(stderr, output) {
				t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, output, stderr)
			}
		})
	}
}
