package stores_test

import (
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// fileServer serves a folder by HTTPS to the node. Its requests are recorded.
func (s *testSystem) fileServer(dir string) (url string, access *fixtures.Access) {
	t := s.t
	t.Helper()
	access = &fixtures.Access{}
	server := httptest.NewUnstartedServer(access.Wrap(http.FileServer(http.Dir(dir))))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of handlers that cut connections
	server.StartTLS()
	t.Cleanup(server.Close)
	certificate := filepath.Join(t.TempDir(), "server.crt")
	write(t, certificate, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	s.Env = append(s.Env, "SSL_CERT_FILE="+certificate)
	return server.URL, access
}

// cutOnce answers the first request for a file with its first half, and then closes the connection, or stalls until
// released.
func cutOnce(file string, match func(*http.Request) bool, halfway func()) func(http.ResponseWriter, *http.Request) bool {
	done := false
	return func(w http.ResponseWriter, r *http.Request) bool {
		if done || r.Method != http.MethodGet || r.Header.Get("Range") == "bytes=0-0" || !match(r) {
			return false
		}
		done = true
		content, err := os.ReadFile(file)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		halfway()
		panic(http.ErrAbortHandler)
	}
}

// count counts the requests for paths with this end that were answered with more than a byte, which says the size.
func count(requests []fixtures.Request, end string) (n int, statuses []int) {
	for _, r := range requests {
		if strings.HasSuffix(r.Path, end) && r.Bytes > 1 {
			n, statuses = n+1, append(statuses, r.Status)
		}
	}
	return n, statuses
}

// Thin deltas are attached from an HTTPS server, by their file and by their folder. A connection that is cut is
// continued where it ended. What comes out are the stores of ordinary deltas, and nothing else is left.
func TestAttachFromServers(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	first, second := s.thin[1], s.thin[2]
	s.mustRun("firstboot")
	releases := t.TempDir()
	fixtures.Run(t, "cp", "-r", first, filepath.Join(releases, "1"))
	fixtures.Run(t, "cp", "-r", second, filepath.Join(releases, "2"))
	url, access := s.fileServer(releases)

	isStore := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/delta.thin") }
	access.Fault(cutOnce(thinFile(first), isStore, func() {}))
	s.mustRun("attach", url+"/1/delta.thin")
	s.wantRelease(1)
	s.wantStore(first)
	if n, statuses := count(access.Take(), "/1/delta.thin"); n != 2 || statuses[1] != http.StatusPartialContent {
		t.Errorf("got %d requests for the store, with %v, want two, the second for the rest", n, statuses)
	}
	if out := s.mustRun("attach", url+"/1/").Out; !strings.Contains(out, "nothing was copied") {
		t.Errorf("got %s, want that nothing was done", out)
	}
	if n, _ := count(access.Take(), "/delta.thin"); n != 0 {
		t.Errorf("got %d requests for a store that is attached, want none", n)
	}
	s.mustRun("attach", url+"/2/")
	s.wantRelease(2)
	s.wantStore(second)
	s.checkConsistency([]string{"attach"})
}

// What is not what was asked for, or not from whom it should be, is refused, and nothing of it is left.
func TestRefusedStoresOfServers(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	delta := s.thin[1]
	s.mustRun("firstboot")
	releases := filepath.Dir(changedCopy(t, delta))
	same, other := filepath.Join(releases, "same"), filepath.Join(releases, "other")
	fixtures.Run(t, "cp", "-r", delta, same)
	fixtures.Run(t, "cp", "-r", delta, other)
	url, _ := s.fileServer(releases)
	plain := httptest.NewServer(http.FileServer(http.Dir(releases)))
	t.Cleanup(plain.Close)
	name, before := url+"/same/delta.thin", s.pinboxFiles()
	refuse := func(what string, code int, text string, args ...string) {
		t.Helper()
		s.wantExit(code, text, "attach", args...)
		if after := s.pinboxFiles(); !slices.Equal(after, before) {
			t.Errorf("%s: got the files %v, want %v", what, after, before)
		}
	}
	refuse("HTTP", 2, "HTTP without TLS", plain.URL+"/same/delta.thin")
	refuse("in place", 2, "cannot be used in place", name, "--in-place")
	refuse("no room", 5, "are kept in reserve", name, "--reserve", "900Ti")
	refuse("another digest", 4, "is not what was asked for", name, "--digest", "sha256:"+strings.Repeat("0", 64))
	refuse("a changed file", 4, "is not what was asked for", url+"/changed/delta.thin")
	refuse("no sums", 3, "the SHA-256 of the store is unknown", url+"/changed/pinbox.lock.json.not")

	keys := filepath.Join(s.Root, "etc/pinbox/keys.d")
	if err := os.MkdirAll(keys, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(keys, "site.pub"), string(sign(t, thinFile(other))))
	refuse("no signature", 4, "the store has no signature", name)
	sign(t, thinFile(same))
	refuse("another key", 4, "the signature of the store is not valid", name)
	s.mustRun("attach", plain.URL+"/other/delta.thin") // the keys of the node make up for TLS
	s.wantRelease(1)
	s.checkConsistency([]string{"attach"})
}

// changedCopy is a copy of a thin delta in which a byte differs.
func changedCopy(t *testing.T, delta string) (folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "changed")
	fixtures.Run(t, "cp", "-r", delta, folder)
	content, err := os.ReadFile(thinFile(folder))
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	write(t, thinFile(folder), string(content))
	return folder
}

// An attach is killed in the middle of the fetch. The next one fetches the rest, and leaves nothing else.
func TestKilledWhileAStoreIsFetched(t *testing.T) {
	t.Parallel()
	s := newThinSystem(t)
	delta := s.thin[1]
	s.mustRun("firstboot")
	url, access := s.fileServer(delta)
	s.killFetch(delta, url+"/delta.thin", access)
	s.wantRelease(1)
	s.checkConsistency([]string{"attach"})
}

// killFetch kills an attach halfway, and attaches again.
func (s *thinSystem) killFetch(delta, source string, access *fixtures.Access) {
	t, killed := s.t, make(chan bool)
	t.Helper()
	isStore := func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/delta.thin") }
	access.Fault(cutOnce(thinFile(delta), isStore, func() { <-killed }))
	cmd := s.Pinbox("attach", source)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(s.Root, "var/lib/pinbox/stores.d/incoming",
		strings.TrimPrefix(digestOf(t, thinFile(delta)), "sha256:"), "delta.thin.part")
	half := int64(len(fixtures.Run(t, "cat", thinFile(delta))) / 2)
	fixtures.Until(t, func() error {
		if fi, err := os.Stat(part); err != nil || fi.Size() < half {
			return fmt.Errorf("got %v, %w, want half of the store", fi, err)
		}
		return nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	close(killed)
	s.mustRun("attach", source)
	n, statuses := count(access.Take(), "/delta.thin")
	if slices.Sort(statuses); n != 2 || statuses[1] != http.StatusPartialContent {
		t.Errorf("got %d requests for the store, with %v, want two, one of them for the rest", n, statuses)
	}
	s.wantStore(delta)
}
