package main

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
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

// A registry that sent a byte every five seconds, or never answered, kept a build waiting
// for ever without a word. --stall is a second here, and a byte comes every tenth of one; a
// link that is slow is no stall.
func TestRegistryStalls(t *testing.T) {
	const size, part, often = 200_000, 50_000, 100 * time.Millisecond
	content := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{2}).Read(content) // never fails
	noise := layer(t, sample.File("noise", string(content)))
	drips, comes, slow := sends(1, 1, often), sends(1, size, 0), sends(1, size/20, often)
	for name, test := range map[string]struct {
		part    string   // of the path
		least   int      // bytes of what is answered so
		answers []answer // one after the other; nil is the right one, and the last stays
		flag    string
		asked   int32    // at least: a busy machine may stall as well
		want    []string // in what it says; none if it goes well
	}{
		"a blob drips": {"/blobs/", part, []answer{sends(part, 1, often)}, "", 3, []string{
			"layer sha256:", "registry cannot be used: it stalls: HOST was asked 3 times, and 1500", " bytes are here after ", "fewer than 16 a second came in the last 1s", "hint: run the command again"}},
		"a blob drips, without a cache": {"/blobs/", part, []answer{sends(part, 1, often)}, "--no-cache", 3, []string{"registry cannot be used: it stalls: HOST was asked 3 times, and 1500"}},
		"a blob never comes":            {"/blobs/", part, []answer{silent}, "", 3, []string{"layer sha256:", "HOST was asked 3 times, and 0 of 200"}},
		"a config drips":                {"/blobs/", 0, []answer{drips}, "", 3, []string{"resolve HOST/test/image@sha256:", "registry cannot be used: it stalls: HOST was asked 3 times, and "}},
		"a manifest drips":              {"/manifests/", 0, []answer{drips}, "", 3, []string{"resolve HOST/test/image@sha256:", "registry cannot be used: it stalls: HOST was asked 3 times and has not answered within 1s", "hint: run the command again"}},
		"a manifest never comes":        {"/manifests/", 0, []answer{silent}, "", 3, []string{"HOST was asked 3 times"}},
		"nothing ever comes":            {"/v2/", 0, []answer{silent}, "", 3, []string{"HOST was asked 3 times"}},

		"a manifest drips once":              {"/manifests/", 0, []answer{drips, nil}, "", 2, nil},
		"a blob drips once":                  {"/blobs/", part, []answer{sends(part, 1, often), comes}, "", 2, nil},
		"a blob drips once, without a cache": {"/blobs/", part, []answer{sends(part, 1, often), comes}, "--no-cache", 2, nil},
		"a blob drips once, without ranges":  {"/blobs/", part, []answer{sends(part, 1, often), rangeless(comes)}, "", 2, nil},
		"a slow link":                        {"/blobs/", part, []answer{slow}, "", 1, nil},
		// What stands before the range comes too slowly, and nobody sees that it comes.
		"a slow link, without ranges": {"/blobs/", part, []answer{sends(3*part, 1, often), rangeless(slow)}, "", 3, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			var stalls atomic.Bool
			r := serve(t, damage(test.part, func(w http.ResponseWriter, r *http.Request, next http.Handler) {
				whole := r.Clone(r.Context())
				whole.Header.Del("Range")
				body := record(next, whole)
				var answer answer
				if stalls.Load() && len(body) >= test.least {
					answer = test.answers[min(int(asked.Add(1)), len(test.answers))-1]
				}
				if answer == nil {
					next.ServeHTTP(w, r)
					return
				}
				answer(w, r, body)
			}))
			sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", noise))))
			stalls.Store(true)
			args := []string{"build", "--set", sets, "--tls-verify=false", "--node-binary", fixtures.Program(t, nodePackage), "-o", filepath.Join(t.TempDir(), "out"), "--stall", "1s", "--cache-dir", t.TempDir()}
			if test.flag != "" {
				args = append(args[:len(args)-2], test.flag)
			}
			want := exitOK
			if test.want != nil {
				want = exitRegistry
			}
			code, _, stderr := pinbox(t.Context(), args...)
			if code != want || asked.Load() < test.asked {
				t.Errorf("exit code %d, not %d; asked %d times, at least %d\n%s", code, want, asked.Load(), test.asked, stderr)
			}
			if strings.Count(stderr, "registry cannot be used") > 1 {
				t.Errorf("it says so twice:\n%s", stderr)
			}
			for _, text := range test.want {
				if text = strings.ReplaceAll(text, "HOST", r.Host); !strings.Contains(stderr, text) {
					t.Errorf("no %q in\n%s", text, stderr)
				}
			}
		})
	}
}

// Whoever waits for a registry can call that off.
func TestStallIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var broken atomic.Bool
	r := serve(t, damage("/blobs/", func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if broken.Load() {
			time.AfterFunc(100*time.Millisecond, cancel)
			sends(1, 1, 50*time.Millisecond)(w, r, bytes.Repeat([]byte{0}, 1000))
			return
		}
		next.ServeHTTP(w, r)
	}))
	sets := write(t, "sets.yaml", sample.Set("worker", push(t, r, image(t, "amd64", layer(t, sample.File("a", "a"))))))
	broken.Store(true)
	start := time.Now()
	code, _, stderr := pinbox(ctx, "plan", "--set", sets, "--tls-verify=false")
	if took := time.Since(start); code != exitInterrupted || took > 10*time.Second {
		t.Errorf("exit code %d after %v\n%s", code, took, stderr)
	}
}

func TestStallFlag(t *testing.T) {
	for value, says := range map[string]string{"0s": "--stall 0s: must be greater than 0", "-1s": "--stall -1s: must be greater than 0", "soon": "--stall"} {
		if code, _, stderr := pinbox(t.Context(), "plan", "--image", "quay.example.com/a:1", "--stall="+value); code != exitUsage || !strings.Contains(stderr, says) {
			t.Errorf("%s: exit code %d\n%s", value, code, stderr)
		}
	}
}
