package layout_test

import (
	"io"
	"io/fs"
	"math"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/layout"
)

// closing counts what is open.
type closing struct {
	io.Reader
	open *int
}

func (c closing) Close() error { *c.open--; return nil }

// Parts are joined up to the first gap, and closed, also after a failure.
func TestJoin(t *testing.T) {
	for name, c := range map[string]struct {
		parts map[string]string
		size  int64 // of each; 0 for its own
		want  string
	}{
		"three":     {map[string]string{"s.001": "a", "s.002": "", "s.003": "bc"}, 0, "abc"},
		"a gap":     {map[string]string{"s.001": "a", "s.003": "bc"}, 0, "a"},
		"no first":  {map[string]string{"s.002": "a"}, 0, "file does not exist"},
		"too large": {map[string]string{"s.001": "a", "s.002": "b"}, math.MaxInt64, "s.002 has 9223372036854775807 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			open := 0
			whole, err := layout.Join("s", func(name string) (layout.Part, error) {
				text, ok := c.parts[name]
				if !ok {
					return layout.Part{}, fs.ErrNotExist
				}
				open++
				return layout.Part{ReadCloser: closing{strings.NewReader(text), &open}, Size: max(c.size, int64(len(text)))}, nil
			})
			var got string
			if err != nil {
				got = err.Error()
			} else {
				text, failed := io.ReadAll(whole)
				if got = string(text); failed != nil || whole.Size != int64(len(text)) || whole.Close() != nil {
					t.Errorf("got %d bytes and %v, want %d", whole.Size, failed, len(text))
				}
			}
			if got != c.want || open != 0 {
				t.Errorf("got %q with %d open files, want %q and none", got, open, c.want)
			}
		})
	}
}

// file is a part that can be read at any offset.
type file struct {
	io.Reader
	io.ReaderAt
}

func (file) Close() error { return nil }

// Parts that are files are read at any offset, as one.
func TestJoinReadsAt(t *testing.T) {
	texts := map[string]string{"s.001": "abc", "s.002": "", "s.003": "defg", "s.004": "h"}
	const want = "abcdefgh"
	whole, err := layout.Join("s", func(name string) (layout.Part, error) {
		text, ok := texts[name]
		if !ok {
			return layout.Part{}, fs.ErrNotExist
		}
		return layout.Part{ReadCloser: file{strings.NewReader(text), strings.NewReader(text)}, Size: int64(len(text))}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := range len(want) + 2 {
		for size := range len(want) + 2 {
			p := make([]byte, size)
			n, err := whole.ReadCloser.(io.ReaderAt).ReadAt(p, int64(at))
			rest := want[min(at, len(want)):]
			if got := string(p[:n]); got != rest[:min(size, len(rest))] || (err == io.EOF) != (size > len(rest)) {
				t.Errorf("%d bytes at %d: got %q, %v; want those of %q", size, at, got, err, rest)
			}
		}
	}
}
