package compose_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/audit"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// contents are the entries of layers whose tar streams are difficult to make again.
func contents() map[string][]sample.Entry {
	return map[string][]sample.Entry{
		"empty":  nil,
		"files":  {sample.Dir("d"), sample.File("d/short", "x"), sample.File("./long", strings.Repeat("long ", 100_000))},
		"twice":  {sample.File("a", "first"), sample.File("a", "the second"), sample.Hardlink("b", "a")},
		"links":  {sample.Dir("d"), sample.Symlink("l", "/d"), sample.File("l/below", "below a link")},
		"names":  {sample.File("/absolute", "1"), sample.File("not-\xff-UTF-8", "2"), sample.File("d/../dots", "3")},
		"marker": {sample.Whiteout("gone"), sample.File("empty", "")},
	}
}

// The tar stream of each layer of a store can be made again.
func TestContentsOfAStore(t *testing.T) {
	for name, entries := range contents() {
		t.Run(name, func(t *testing.T) {
			stream := tarStream(t, entries...)
			store := composed(t, func(s *compose.Store, c *squashfs.Compressor) {
				if _, err := addStream(t, s, c, layerOf("", stream), stream); err != nil {
					t.Fatal(err)
				}
			})
			read := 0
			if err := audit.Layers(t.Context(), store, func(layout.Layer) { read++ }); err != nil || read != 1 {
				t.Errorf("got %d layers, %v, want 1", read, err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if err := audit.Layers(ctx, store, nil); len(entries) > 0 && !errors.Is(err, context.Canceled) {
				t.Errorf("canceled: got %v, want %v", err, context.Canceled)
			}
		})
	}
}

// exchanged has the file of one path under another one.
type exchanged struct {
	*squashfs.Reader
	name, by string
}

func (e exchanged) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, e.name) {
		name = strings.TrimSuffix(name, e.name) + e.by
	}
	return e.Reader.Open(name)
}

// A layer that has other content than its record says is invalid, whatever its file is.
func TestChangedContents(t *testing.T) {
	stream := tarStream(t, sample.File("a", "one"), sample.File("b", "two"), sample.File("c", "three"), sample.Dir("d"))
	store := composed(t, func(s *compose.Store, c *squashfs.Compressor) {
		if _, err := addStream(t, s, c, layerOf("", stream), stream); err != nil {
			t.Fatal(err)
		}
	})
	for name, test := range map[string]struct {
		by   string
		want error
	}{
		"content": {"diff/b", audit.ErrInvalid}, "size": {"diff/c", audit.ErrInvalid}, "kind": {"diff/d", audit.ErrInvalid},
		"missing": {"diff/x", fs.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			files := exchanged{store, "diff/a", test.by}
			if err := audit.Layers(t.Context(), files, func(layout.Layer) {}); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
