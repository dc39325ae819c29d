package stores_test

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime"
)

// serveState runs pinbox-node serve on loopback for a folder of state, until the test ends.
func serveState(t *testing.T, state string) (address string, cmd *exec.Cmd) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address = l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = l.Close()
	cmd = exec.Command(fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node"), "serve", "--interface", "lo", "--port",
		port, "--state", state)
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if t.Failed() {
			t.Logf("pinbox-node serve:\n%s", log)
		}
	})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			return address, cmd
		}
		if time.Now().After(end) {
			t.Fatal("pinbox-node serve: got no connection within 30 seconds")
		}
	}
}

// A thin delta comes from a neighbour, and the source gives its sums only. It stays for other neighbours, as far as the
// budget goes. What no neighbour has comes from the source; so does the rest of what one had that was killed.
func TestAttachFromANeighbour(t *testing.T) {
	s, registry := newThinSystem(t, 4)
	first, second := s.thin(1, s.full[0]), s.thin(2, s.full[1])
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s.mustRun("firstboot")
	releases, peer := t.TempDir(), t.TempDir()
	fixtures.Run(t, "cp", "-r", first, filepath.Join(releases, "1"))
	fixtures.Run(t, "cp", "-r", second, filepath.Join(releases, "2"))
	id := digest.Digest(digestOf(t, thinFile(first)))
	kept := filepath.Join(peer, "stores.d/neighbours")
	if err := os.MkdirAll(kept, 0o700); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "cp", thinFile(first), filepath.Join(kept, id.Encoded()))
	url, access := fileServer(t, releases)
	address, peerServe := serveState(t, peer)

	s.mustRun("attach", url+"/1/", "--neighbours", address, "--keep", "1Gi")
	s.wantRelease(1)
	s.wantStore(first)
	if n, _ := count(access.Take(), "/delta.thin"); n != 0 {
		t.Errorf("got %d requests to the source for the store, want none", n)
	}
	size := int64(len(fixtures.Run(t, "cat", thinFile(first))))
	s.wantFetched(runtime.StoreFetch{Source: url + "/1/delta.thin", Bytes: size, FromNeighbours: size})

	own, _ := serveState(t, filepath.Join(s.Root, "var/lib/pinbox"))
	answer, err := http.Get("http://" + own + "/v1/files/" + id.String())
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if got, err := digest.FromReader(answer.Body); err != nil || got != id {
		t.Errorf("got %s, %v from this node, want the thin delta %s", got, err, id)
	}
	_ = peerServe.Process.Kill()
	s.mustRun("attach", url+"/2/", "--neighbours", address+","+own)
	s.wantRelease(2)
	if n, _ := count(access.Take(), "/delta.thin"); n != 1 {
		t.Errorf("got %d requests to the source for what no neighbour has, want 1", n)
	}
	if entries, _ := os.ReadDir(filepath.Join(s.Root, "var/lib/pinbox/stores.d/neighbours")); len(entries) != 0 {
		t.Errorf("got %v, which is kept without a budget, want nothing", entries)
	}
}

// wantFetched checks where the status says that the current store came from.
func (s *thinSystem) wantFetched(want runtime.StoreFetch) {
	s.t.Helper()
	var all []runtime.StoreStatus
	if err := json.Unmarshal([]byte(s.mustRun("stores", "--output", "json").Out), &all); err != nil {
		s.t.Fatal(err)
	}
	for _, one := range all {
		if one.Current && (one.Fetched == nil || *one.Fetched != want) {
			s.t.Errorf("got %+v, want %+v", one.Fetched, want)
		}
	}
}
