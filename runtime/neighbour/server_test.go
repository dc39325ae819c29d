package neighbour_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/neighbour"
)

// offering starts the server of a node that has a store, a kept delta, and files that nobody may have.
func offering(t *testing.T, s *neighbour.Server) (address, dir string, id digest.Digest) {
	t.Helper()
	dir, id = t.TempDir(), digest.FromString(stored)
	write(t, filepath.Join(dir, id.Encoded()+".squashfs"), stored)
	write(t, filepath.Join(dir, "state.json"), "secret")
	write(t, filepath.Join(filepath.Dir(dir), "secret"), "secret")
	write(t, filepath.Join(dir, "neighbours", digest.FromString("kept").Encoded()), "kept")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Dir = dir
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("got %v at the end of the server, want no error", err)
		}
	})
	return l.Addr().String(), dir, id
}

// stored is the content of a store.
const stored = "the store of a release"

func write(t *testing.T, name, content string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o700)
	if err == nil {
		err = os.WriteFile(name, []byte(content), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ask makes a request, whose headers are name, value, and so on. The path is sent as it is.
func ask(t *testing.T, address, method, path string, headers ...string) (status int, body string, header http.Header) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	request := method + " " + path + " HTTP/1.1\r\nHost: node\r\nConnection: close\r\n"
	for i := 0; i < len(headers); i += 2 {
		request += headers[i] + ": " + headers[i+1] + "\r\n"
	}
	if _, err := io.WriteString(c, request+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequest(method, "http://node/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), r)
	if err != nil {
		t.Fatalf("%s %s: got %v, want an answer", method, path, err)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body) // it may be cut
	return answer.StatusCode, string(text), answer.Header
}

// A server gives what it has by the digest, in whole and in parts, and nothing else.
func TestWhatIsServed(t *testing.T) {
	address, _, id := offering(t, &neighbour.Server{})
	file := "/v1/files/" + id.String()
	for name, c := range map[string]struct {
		method, path, bytes string
		status              int
		body                string
	}{
		"a store":                {"GET", file, "", 200, stored},
		"a part":                 {"GET", file, "bytes=4-8", 206, stored[4:9]},
		"the rest":               {"GET", file, "bytes=4-", 206, stored[4:]},
		"more than there is":     {"GET", file, "bytes=4-99999999999", 206, stored[4:]},
		"behind its end":         {"GET", file, "bytes=22-", 416, ""},
		"its last bytes":         {"GET", file, "bytes=-5", 416, ""},
		"several parts":          {"GET", file, "bytes=0-1,3-4", 416, ""},
		"a huge range":           {"GET", file, "bytes=99999999999999999999-", 416, ""},
		"a kept delta":           {"GET", "/v1/files/" + digest.FromString("kept").String(), "", 200, "kept"},
		"what it has":            {"HEAD", file, "", 200, ""},
		"what it has not":        {"GET", "/v1/files/" + digest.FromString("x").String(), "", 404, ""},
		"the list":               {"GET", "/v1/files/", "", 404, ""},
		"the root":               {"GET", "/", "", 404, ""},
		"a name":                 {"GET", "/v1/files/state.json", "", 404, ""},
		"a path":                 {"GET", "/v1/files/../state.json", "", 404, ""},
		"a path above":           {"GET", "/v1/files/../../secret", "", 404, ""},
		"an escaped path":        {"GET", "/v1/files/%2e%2e%2fsecret", "", 404, ""},
		"a digest and a path":    {"GET", file + "/../../state.json", "", 404, ""},
		"an absolute path":       {"GET", "/v1/files//etc/passwd", "", 404, ""},
		"another algorithm":      {"GET", "/v1/files/sha512:" + strings.Repeat("0", 128), "", 404, ""},
		"a digest in upper case": {"GET", "/v1/files/sha256:" + strings.ToUpper(id.Encoded()), "", 404, ""},
		"a query":                {"GET", file + "?x=1", "", 404, ""},
		"to write":               {"PUT", file, "", 405, ""},
		"to remove":              {"DELETE", file, "", 405, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var headers []string
			if c.bytes != "" {
				headers = []string{"Range", c.bytes}
			}
			status, body, _ := ask(t, address, c.method, c.path, headers...)
			if status != c.status || body != c.body {
				t.Errorf("got %d and %q, want %d and %q", status, body, c.status, c.body)
			}
		})
	}
	if status, _, _ := ask(t, address, "GET", file, "Content-Length", "1000000000"); status != 400 {
		t.Errorf("a request with a body: got %d, want 400 without waiting for it", status)
	}
	if _, _, h := ask(t, address, "HEAD", file); h.Get("Pinbox-State") != "complete" || h.Get("Pinbox-Bytes") != "22" ||
		h.Get("Content-Length") != "22" {
		t.Errorf("got %v, want that it is complete", h)
	}
}

// A file that is being fetched is given as its bytes come. Once nobody fetches it, it is not there.
func TestWhatIsBeingFetched(t *testing.T) {
	address, dir, _ := offering(t, &neighbour.Server{Wait: time.Second})
	content := strings.Repeat("0123456789", 100)
	id := digest.FromString(content)
	folder, path := filepath.Join(dir, "incoming", id.Encoded()), "/v1/files/"+id.String()
	write(t, filepath.Join(folder, "delta.thin.part"), content[:100])
	if status, _, _ := ask(t, address, "GET", path); status != 404 {
		t.Errorf("before anybody fetches it: got %d, want 404", status)
	}
	a, err := neighbour.Announce(folder, "delta.thin", 1000)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Set(neighbour.Reads); err != nil {
		t.Fatal(err)
	}
	_, _, h := ask(t, address, "HEAD", path)
	if h.Get("Pinbox-State") != "fetching" || h.Get("Pinbox-Bytes") != "100" || h.Get("Pinbox-Source") != "reads" ||
		h.Get("Content-Length") != "1000" {
		t.Errorf("got %v, want the first 100 bytes of 1000", h)
	}
	time.AfterFunc(200*time.Millisecond, func() { write(t, filepath.Join(folder, "delta.thin.part"), content) })
	if status, body, _ := ask(t, address, "GET", path, "Range", "bytes=50-"); status != 206 || body != content[50:] {
		t.Errorf("got %d and %d bytes, want all that come", status, len(body))
	}
	write(t, filepath.Join(folder, "delta.thin.part"), content[:100])
	if _, body, _ := ask(t, address, "GET", path, "Range", "bytes=50-"); body != content[50:100] {
		t.Errorf("no more bytes come: got %q, want those that are there, and the end", body)
	}
	if status, _, h := ask(t, address, "GET", path, "Range", "bytes=500-"); status != 503 || h.Get("Retry-After") == "" {
		t.Errorf("behind its bytes: got %d, want 503 and when to try again", status)
	}
	a.Close()
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(filepath.Join(folder, ".fetching"), old, old); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := ask(t, address, "GET", path); status != 404 {
		t.Errorf("after its process was killed: got %d, want 404", status)
	}
	write(t, filepath.Join(folder, "delta.thin"), content)
	if status, body, _ := ask(t, address, "GET", path); status != 200 || body != content {
		t.Errorf("once it is complete: got %d and %d bytes, want it", status, len(body))
	}
	write(t, filepath.Join(folder, ".fetching"), `{"file":"../../state.json","size":6}`)
	if status, _, _ := ask(t, address, "GET", path); status != 404 {
		t.Errorf("a note that names another folder: got %d, want 404", status)
	}
}

// hold requests a file that does not end, and reads no more than its headers.
func hold(t *testing.T, address, path string) (status int) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path)
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode
}

// Uploads at once are bounded, of all and of one address; who comes too many is told when to try again. A neighbour
// can ask for one only if there are few.
func TestTooManyUploads(t *testing.T) {
	s := &neighbour.Server{Uploads: 3, UploadsOfOne: 2}
	address, dir, _ := offering(t, s)
	big := bytes.Repeat([]byte("x"), 64<<20) // more than the kernel buffers
	id := digest.FromBytes(big)
	write(t, filepath.Join(dir, id.Encoded()+".squashfs"), string(big))
	path := "/v1/files/" + id.String()
	if got := hold(t, address, path); got != 200 {
		t.Fatalf("got %d, want the file", got)
	}
	if status, _, _ := ask(t, address, "GET", path, "Range", "bytes=0-9", "Pinbox-Uploads", "0"); status != 503 {
		t.Errorf("only if there is no upload: got %d, want 503", status)
	}
	if got := hold(t, address, path); got != 200 {
		t.Fatalf("got %d, want the file", got)
	}
	status, _, h := ask(t, address, "GET", path, "Range", "bytes=0-9")
	if status != 503 || h.Get("Retry-After") == "" || h.Get("Pinbox-Uploads") != "2" {
		t.Errorf("the third of one address: got %d and %v, want 503, when to try again, and two uploads", status, h)
	}
	if status, _, _ := ask(t, address, "HEAD", path); status != 200 {
		t.Errorf("what it has: got %d, want 200: that is no upload", status)
	}
}

// Connections at once are bounded; others are closed, and the ones that are open go on. One that sends no headers ends.
func TestTooManyConnections(t *testing.T) {
	address, _, id := offering(t, &neighbour.Server{ConnectionsOfOne: 3})
	path := "/v1/files/" + id.String()
	var idle []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		idle = append(idle, c)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetReadDeadline(time.Now().Add(2 * time.Second))
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the fourth connection: got %v, want that it is closed", err)
	}
	fmt.Fprintf(idle[0], "GET %s HTTP/1.1\r\nHost: node\r\n\r\n", path)
	if answer, err := http.ReadResponse(bufio.NewReader(idle[0]), nil); err != nil || answer.StatusCode != 200 {
		t.Errorf("an open connection: got %v, want the file", err)
	}
	_ = idle[1].SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := idle[1].Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a connection without headers: got %v, want that it is closed", err)
	}
}

// All uploads together keep the rate.
func TestRate(t *testing.T) {
	address, dir, _ := offering(t, &neighbour.Server{Rate: 2 << 20})
	content := strings.Repeat("x", 1<<20)
	id := digest.FromString(content)
	write(t, filepath.Join(dir, id.Encoded()+".squashfs"), content)
	began := time.Now()
	_, body, _ := ask(t, address, "GET", "/v1/files/"+id.String())
	if took := time.Since(began); len(body) != 1<<20 || took < 300*time.Millisecond {
		t.Errorf("got %d bytes in %v, want all in half a second", len(body), took)
	}
}

// What is kept for neighbours stays within its budget: the oldest goes first.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	keep := func(content string, budget int64) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "delta.thin")
		write(t, file, content)
		if err := neighbour.Keep(dir, file, digest.FromString(content), budget); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // a later time of change
	}
	want := func(what string, contents ...string) {
		t.Helper()
		entries, _ := os.ReadDir(filepath.Join(dir, "neighbours"))
		if len(entries) != len(contents) {
			t.Errorf("%s: got %v, want %d", what, entries, len(contents))
		}
		for _, content := range contents {
			if _, err := os.Stat(filepath.Join(dir, "neighbours", digest.FromString(content).Encoded())); err != nil {
				t.Errorf("%s: got %v, want %s", what, err, content)
			}
		}
	}
	keep("one", 0)
	want("without a budget")
	keep("one", 8)
	keep("two", 8)
	keep("two", 8)
	want("two that fit", "one", "two")
	keep("three", 8)
	want("a third", "two", "three")
	keep("much too large", 8)
	want("one that does not fit", "two", "three")
	keep("four", 0)
	want("no budget any more")
}
