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

// content of the blob that all tests read from byte from on.
var content = bytes.Repeat([]byte("0123456789abcdef"), 10_000)

const from = 70_001

// source is the library's, of an image in a registry that answers so when it is asked
// for blobs.
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

// blob is content as a manifest describes it.
func blob() imgtypes.BlobInfo {
	return imgtypes.BlobInfo{Digest: digest.FromBytes(content), Size: int64(len(content))}
}

// An update of containers/image may change what is internal to it: then this test
// fails, where pinbox would fetch whole blobs again without a word.
func TestLibraryReadsRanges(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"a range": func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Range") != "bytes=70001-159999" {
				t.Errorf("asked for %q", r.Header.Get("Range"))
			}
			w.Header().Set("Content-Type", "application/octet-stream")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
		},
		"all of it": func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(content) },
	} {
		t.Run(name, func(t *testing.T) {
			body, err := tail.Open(t.Context(), source(t, answer), blob(), from)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(body)
			if err = errors.Join(err, body.Close()); err != nil || !bytes.Equal(got, content[from:]) {
				t.Errorf("%d of %d bytes, %v", len(got), len(content)-from, err)
			}
		})
	}
}

// These are all parts of the library that have no name for others: where it renames
// one, or gives it another type, this says which.
func TestShapeOfTheLibrary(t *testing.T) {
	method, ok := reflect.TypeOf(source(t, nil)).MethodByName("GetBlobAt")
	if !ok {
		t.Fatal("docker's image source has no method GetBlobAt")
	}
	const want = "func(*docker.dockerImageSource, context.Context, types.BlobInfo, []private.ImageSourceChunk) (chan " +
		"io.ReadCloser, chan error, error)"
	if got := method.Type.String(); got != want {
		t.Errorf("GetBlobAt is\n%s, not\n%s", got, want)
	}
	chunk := method.Type.In(3).Elem()
	if chunk.PkgPath() != "go.podman.io/image/v5/internal/private" || chunk.NumField() != 2 {
		t.Errorf("%s of %s has %d fields", chunk, chunk.PkgPath(), chunk.NumField())
	}
	for i, name := range []string{"Offset", "Length"} {
		if f := chunk.Field(i); f.Name != name || f.Type.Kind() != reflect.Uint64 {
			t.Errorf("field %d of %s is %s %s, not %s uint64", i, chunk, f.Name, f.Type, name)
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

	noMethod  struct{ imgtypes.ImageSource }
	nameless  struct{ noMethod }
	intTypes  struct{ noMethod }
	more      struct{ noMethod }
	noErrors  struct{ noMethod }
	lessTaken struct{ noMethod }
)

func (nameless) GetBlobAt(context.Context, imgtypes.BlobInfo, []renamed) (streams, chan error, error) {
	panic("called")
}

func (intTypes) GetBlobAt(context.Context, imgtypes.BlobInfo, []retyped) (streams, chan error, error) {
	panic("called")
}

func (more) GetBlobAt(context.Context, imgtypes.BlobInfo, []extended) (streams, chan error, error) {
	panic("called")
}

func (noErrors) GetBlobAt(context.Context, imgtypes.BlobInfo, []chunk) (streams, error) {
	panic("called")
}

func (lessTaken) GetBlobAt(context.Context, digest.Digest, []chunk) (streams, chan error, error) {
	panic("called")
}

// What is not known is not called.
func TestOtherShapes(t *testing.T) {
	for name, src := range map[string]imgtypes.ImageSource{
		"no such method": noMethod{}, "another field": nameless{}, "another type of a field": intTypes{},
		"a field more": more{}, "another result": noErrors{}, "another parameter": lessTaken{},
	} {
		if _, err := tail.Open(t.Context(), src, blob(), from); !errors.Is(err, tail.ErrNoRange) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The library sends an error of an answer where streams are expected: whoever waited for
// one of those alone waited for ever.
func TestAnswersThatAreNone(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"parts without a boundary": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "multipart/byteranges")
			w.WriteHeader(http.StatusPartialContent)
		},
		"cut off before the range": func(w http.ResponseWriter, _ *http.Request) {
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
			limit := 10 * time.Second
			if never {
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := tail.Open(ctx, src, blob(), from)
				ended <- err
			}()
			select {
			case err := <-ended:
				if err == nil || errors.Is(err, context.DeadlineExceeded) != never {
					t.Error(err)
				}
			case <-time.After(20 * time.Second):
				t.Error("it waits for ever")
			}
		})
	}
}

// The library panicked when a stream of a registry without ranges was closed after it had
// failed: a build crashed where a slow registry reset a connection, or stalled.
func TestCloseAfterAFailedRead(t *testing.T) {
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
			body, err := tail.Open(ctx, src, blob(), from)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(body, make([]byte, 500)); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err = io.Copy(io.Discard, body)
			if err == nil {
				t.Error("got no error of a body that is cut off")
			}
			if _, again := body.Read(make([]byte, 1)); !errors.Is(again, err) {
				t.Errorf("got %v of another Read, want %v again", again, err)
			}
			for range 2 {
				_ = body.Close() // what it returns does not matter any more
			}
		})
	}
}
