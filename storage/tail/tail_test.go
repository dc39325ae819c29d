package tail_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/tail"
)

// content is the blob that the tests read, beginning at the offset from.
var content = bytes.Repeat([]byte("0123456789abcdef"), 10_000)

const from = 70_001

// source returns containers/image's source of an image in a registry. answer handles requests for
// blobs.
func source(t *testing.T, answer http.HandlerFunc) imgtypes.ImageSource {
	t.Helper()
	var access fixtures.Access
	registry, err := sample.Serve(access.Wrap)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pin, err := registry.PushStack(t.Context(), "tail", 100)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := docker.ParseReference("//" + pin)
	if err != nil {
		t.Fatal(err)
	}
	src, err := ref.NewImageSource(t.Context(), &imgtypes.SystemContext{
		DockerInsecureSkipTLSVerify: imgtypes.OptionalBoolTrue,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { src.Close() })
	access.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		answer(w, r)
		return true
	})
	return src
}

// blob returns the descriptor of content.
func blob() imgtypes.BlobInfo {
	return imgtypes.BlobInfo{Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// tail uses an internal interface of containers/image. If a later version changes it, this test
// fails, while pinbox fetches complete blobs again.
func TestLibraryReadsRanges(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a range": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=70001-159999" {
				t.Errorf("got a request for the range %q, want bytes=70001-159999", r.Header.Get("Range"))
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		},
		"the complete blob": func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(content) },
	} {
		t.Run(name, func(t *testing.T) {
			body, err := tail.Open(t.Context(), source(t, answer), blob(), from, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			if err = errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, content[from:]) {
				t.Errorf("got %d bytes, %v, want %d with the content", len(got), err, len(content)-from)
			}
		})
	}
}

// The internal types of containers/image that tail uses. If a later version renames one or changes
// its type, the test shows which.
func TestInternalTypes(t *testing.T) {
	method, ok := reflect.TypeOf(source(t, nil)).MethodByName("GetBlobAt")
	if !ok {
		t.Fatal("docker's image source: got no method GetBlobAt")
	}
	const want = "func(*docker.dockerImageSource, context.Context, types.BlobInfo, []private.ImageSourceChunk) (chan " +
		"io.ReadCloser, chan error, error)"
	if got := method.Type.String(); got != want {
		t.Errorf("GetBlobAt: got\n%s, want\n%s", got, want)
	}
	chunk := method.Type.In(3).Elem()
	if chunk.PkgPath() != "go.podman.io/image/v5/internal/private" || chunk.NumField() != 2 {
		t.Errorf("got %s of %s with %d fields, want one of internal/private with 2", chunk, chunk.PkgPath(),
			chunk.NumField())
	}
	for i, name := range []string{"Offset", "Length"} {
		if f := chunk.Field(i); f.Name != name || f.Type.Kind() != reflect.Uint64 {
			t.Errorf("field %d of %s: got %s %s, want %s uint64", i, chunk, f.Name, f.Type, name)
		}
	}
}

type (
	chunk    struct{ Offset, Length uint64 }
	renamed  struct{ From, Length uint64 }
	retyped  struct{ Offset, Length int64 }
	extended struct {
		Offset, Length uint64
		Unit           string
	}
	streams = chan io.ReadCloser

	noMethod       struct{ imgtypes.ImageSource }
	renamedField   struct{ noMethod }
	retypedField   struct{ noMethod }
	anotherField   struct{ noMethod }
	otherResults   struct{ noMethod }
	otherParameter struct{ noMethod }
)

func (renamedField) GetBlobAt(context.Context, imgtypes.BlobInfo, []renamed) (streams, chan error, error) {
	panic("called")
}

func (retypedField) GetBlobAt(context.Context, imgtypes.BlobInfo, []retyped) (streams, chan error, error) {
	panic("called")
}

func (anotherField) GetBlobAt(context.Context, imgtypes.BlobInfo, []extended) (streams, chan error, error) {
	panic("called")
}

func (otherResults) GetBlobAt(context.Context, imgtypes.BlobInfo, []chunk) (streams, error) {
	panic("called")
}

func (otherParameter) GetBlobAt(context.Context, digest.Digest, []chunk) (streams, chan error, error) {
	panic("called")
}

// A method GetBlobAt of another type is not called.
func TestOtherTypes(t *testing.T) {
	for name, src := range map[string]imgtypes.ImageSource{
		"no method": noMethod{}, "a renamed field": renamedField{}, "another type of a field": retypedField{},
		"another field": anotherField{}, "other results": otherResults{}, "another parameter": otherParameter{},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := tail.Open(t.Context(), src, blob(), from, int64(len(content))); !errors.Is(err, tail.ErrNoRange) {
				t.Errorf("got %v, want %v", err, tail.ErrNoRange)
			}
		})
	}
}

// Open returns the error of a response without the range. The library sends some errors on the
// channel of streams; a bug was to wait for ever for them on the other one.
func TestInvalidResponses(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"parts without a boundary": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "multipart/byteranges")
			w.WriteHeader(http.StatusPartialContent)
		},
		"truncated before the range": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "160000")
			_, _ = w.Write(content[:1000])
			panic(http.ErrAbortHandler)
		},
		"never": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"never the range": func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(content[:1000])
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		},
	} {
		t.Run(name, func(t *testing.T) {
			src := source(t, answer)
			never := strings.HasPrefix(name, "never")
			ctx := t.Context()
			if never {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, 500*time.Millisecond)
				defer cancel()
			}
			ended := make(chan error, 1)
			go func() {
				_, err := tail.Open(ctx, src, blob(), from, int64(len(content)))
				ended <- err
			}()
			if err, _ := fixtures.Receive(t, "result", ended); err == nil ||
				errors.Is(err, context.DeadlineExceeded) != never {
				t.Errorf("got %v, want an error, DeadlineExceeded: %v", err, never)
			}
		})
	}
}

// Close works after a failed Read. A bug was a panic of the library when a stream of a registry
// without ranges was closed after it had failed: a build crashed if the registry reset the
// connection or stalled.
func TestCloseAfterFailedRead(t *testing.T) {
	for name, stop := range map[string]func(r *http.Request){
		"reset":    func(*http.Request) { panic(http.ErrAbortHandler) },
		"canceled": func(r *http.Request) { <-r.Context().Done() },
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			src := source(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Length", "160000")
				_, _ = w.Write(content[:from+1000])
				w.(http.Flusher).Flush()
				stop(r)
			})
			body, err := tail.Open(ctx, src, blob(), from, int64(len(content)))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(body, make([]byte, 500)); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err = io.Copy(io.Discard, body)
			if err == nil {
				t.Error("a truncated body: got no error")
			}
			if _, second := body.Read(make([]byte, 1)); !errors.Is(second, err) {
				t.Errorf("a second Read: got %v, want %v", second, err)
			}
			for range 2 {
				_ = body.Close() // its result is not relevant after an error
			}
		})
	}
}
