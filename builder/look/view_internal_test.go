package look

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fake is a layer: by path "dir", "opaque", "gone" for a whiteout, "-> target", or the content of a file.
type fake map[string]string

func (l fake) Lstat(name string) (File, error) {
	kind, ok := l[name]
	f := File{Mode: 0o644, Size: int64(len(kind))}
	target, link := strings.CutPrefix(kind, "-> ")
	switch {
	case name == ".", kind == "dir", kind == "opaque":
		f = File{Mode: Mode(fs.ModeDir | 0o755), opaque: kind == "opaque"}
	case !ok:
		return f, &fs.PathError{Op: "lstat", Path: name, Err: fs.ErrNotExist}
	case kind == "gone":
		f = File{Mode: Mode(fs.ModeDevice | fs.ModeCharDevice), whiteout: true}
	case link:
		f = File{Mode: Mode(fs.ModeSymlink | 0o777), Target: target}
	case kind == "pipe":
		f.Mode = Mode(fs.ModeNamedPipe)
	}
	return f, nil
}

func (l fake) ReadDir(name string) (names []string, err error) {
	if f, err := l.Lstat(name); err != nil || !f.Mode.IsDir() {
		return nil, errors.Join(err, syscall.ENOTDIR)
	}
	for p := range l {
		if path.Dir(p) == name && p != "." {
			names = append(names, path.Base(p))
		}
	}
	return names, nil
}

func (l fake) Open(name string) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(l[name])), nil
}

func TestMerge(t *testing.T) {
	for name, test := range map[string]struct {
		layers []fake // the lowest first
		want   string // all paths
	}{
		"no layers":              {nil, ""},
		"one layer":              {[]fake{{"b": "1", "a": "dir", "a/c": "2"}}, "a a/c b"},
		"merged folders":         {[]fake{{"d": "dir", "d/a": "1"}, {"d": "dir", "d/b": "2"}}, "d d/a d/b"},
		"replaced":               {[]fake{{"a": "1"}, {"a": "22"}}, "a"},
		"deleted":                {[]fake{{"a": "1", "b": "1"}, {"a": "gone"}}, "b"},
		"deleted and back":       {[]fake{{"d": "dir", "d/a": "1"}, {"d": "gone"}, {"d": "dir", "d/b": "2"}}, "d d/b"},
		"deleted, not there":     {[]fake{{"a": "gone"}}, ""},
		"deleted in a folder":    {[]fake{{"d": "dir", "d/a": "1"}, {"d": "dir", "d/a": "gone"}}, "d"},
		"opaque":                 {[]fake{{"d": "dir", "d/a": "1"}, {"d": "opaque", "d/b": "2"}}, "d d/b"},
		"opaque below":           {[]fake{{"d": "dir", "d/a": "1"}, {"d": "opaque", "d/b": "2"}, {"d": "dir", "d/c": "3"}}, "d d/b d/c"},
		"opaque above, and deep": {[]fake{{"d": "dir", "d/e": "dir", "d/e/a": "1"}, {"d": "opaque", "d/e": "dir", "d/e/b": "2"}}, "d d/e d/e/b"},
		"opaque root":            {[]fake{{"a": "1"}, {".": "opaque", "b": "2"}}, "a b"},
		"a file hides a folder":  {[]fake{{"d": "dir", "d/a": "1"}, {"d": "file"}}, "d"},
		"a folder hides a file":  {[]fake{{"d": "file"}, {"d": "dir", "d/a": "1"}}, "d d/a"},
		"a folder over a file over a folder": {
			[]fake{{"d": "dir", "d/a": "1"}, {"d": "file"}, {"d": "dir", "d/b": "2"}}, "d d/b",
		},
		"a link hides a folder": {[]fake{{"d": "dir", "d/a": "1"}, {"d": "-> e", "e": "dir", "e/b": "2"}}, "d e e/b"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			err := viewOf(test.layers...).List("/", true, func(f File) error {
				got = append(got, f.Name)
				return nil
			})
			if err != nil || strings.Join(got, " ") != test.want {
				t.Errorf("got %q, %v; want %q", strings.Join(got, " "), err, test.want)
			}
		})
	}
}

func viewOf(lowestFirst ...fake) (v View) {
	for _, l := range slices.Backward(lowestFirst) {
		v = append(v, l)
	}
	return v
}

func TestPaths(t *testing.T) {
	v := viewOf(
		fake{
			"etc": "dir", "etc/passwd": "below", "etc/old": "old", "usr": "dir", "usr/lib": "dir", "usr/lib/x": "x",
			"lib": "-> usr/lib", "abs": "-> /usr/lib", "out": "-> ../../../../etc/passwd", "loop": "-> loop", "pipe": "pipe",
			"gone": "-> etc/old", "dangling": "-> /no/such/file", "etc/abs": "-> /usr/lib",
		},
		fake{"etc": "dir", "etc/passwd": "above", "etc/old": "gone", "usr": "dir", "usr/lib": "dir", "usr/lib/y": "y"},
	)
	for name, test := range map[string]struct {
		want string
		err  error // nil for a file with the content
	}{
		"/etc/passwd":           {"above", nil},
		"etc/passwd":            {"above", nil},
		"//etc/./passwd":        {"above", nil},
		"/../../etc/passwd":     {"above", nil},
		"/lib/x":                {"x", nil},
		"/abs/y":                {"y", nil},
		"/etc/abs/y":            {"y", nil},
		"/lib/../../etc/passwd": {"above", nil}, // the parent of usr/lib, and then the root's
		"/out":                  {"above", nil},
		"/etc/old":              {"", fs.ErrNotExist},
		"/gone":                 {"", fs.ErrNotExist},
		"/dangling":             {"", fs.ErrNotExist},
		"/loop":                 {"", syscall.ELOOP},
		"/etc/passwd/x":         {"", syscall.ENOTDIR},
		"/etc/passwd/":          {"", syscall.ENOTDIR},
		"/etc":                  {"", syscall.EISDIR},
		"/":                     {"", syscall.EISDIR},
		"":                      {"", syscall.EISDIR},
		"/pipe":                 {"", errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			var got bytes.Buffer
			err := v.Copy(t.Context(), name, &got)
			if test.err == errors.ErrUnsupported { //nolint:errorlint // a mark of the table
				if err == nil || !strings.Contains(err.Error(), "a pipe") {
					t.Errorf("got %v, want that it is a pipe", err)
				}
				return
			}
			if got.String() != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q, %v; want %q, %v", got.String(), err, test.want, test.err)
			}
		})
	}
}

// A file, and a link to a folder, may be listed too.
func TestListOfAPath(t *testing.T) {
	v := viewOf(fake{"usr": "dir", "usr/lib": "dir", "usr/lib/x": "x", "lib": "-> usr/lib", "link": "-> lib/x"})
	for name, want := range map[string][]string{
		"": {"lib", "link", "usr"}, "/usr": {"lib"}, "/lib": {"x"}, "/lib/x": {"x"}, "/link": {"x"},
	} {
		var got []string
		err := v.List(name, false, func(f File) error {
			got = append(got, f.Name)
			return nil
		})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", name, err, diff)
		}
	}
	if err := v.List("/", true, func(File) error { return errors.ErrUnsupported }); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v, want the error of visit", err)
	}
}

func TestMode(t *testing.T) {
	for want, mode := range map[string]fs.FileMode{
		"-rw-r--r--": 0o644, "drwxr-xr-x": fs.ModeDir | 0o755, "lrwxrwxrwx": fs.ModeSymlink | 0o777,
		"-rwsr-xr-x": fs.ModeSetuid | 0o755, "-rwSr--r--": fs.ModeSetuid | 0o644, "drwxr-s---": fs.ModeDir | fs.ModeSetgid | 0o750,
		"drwxr-S---": fs.ModeDir | fs.ModeSetgid | 0o740, "drwxrwxrwt": fs.ModeDir | fs.ModeSticky | 0o777,
		"d--------T": fs.ModeDir | fs.ModeSticky, "prw-------": fs.ModeNamedPipe | 0o600, "srwx------": fs.ModeSocket | 0o700,
		"brw-rw----": fs.ModeDevice | 0o660, "crw-rw-rw-": fs.ModeDevice | fs.ModeCharDevice | 0o666,
	} {
		if got := Mode(mode).String(); got != want {
			t.Errorf("%v: got %q, want %q", mode, got, want)
		}
	}
}

func TestChainOfLinks(t *testing.T) {
	layer := fake{"41": "file"}
	for i := range 41 {
		layer[fmt.Sprint(i)] = fmt.Sprintf("-> %d", i+1)
	}
	var got bytes.Buffer
	if err := viewOf(layer).Copy(t.Context(), "1", &got); err != nil || got.String() != "file" {
		t.Errorf("40 links: got %q, %v; want the file", got.String(), err)
	}
	if err := viewOf(layer).Copy(t.Context(), "0", &got); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("41 links: got %v, want %v", err, syscall.ELOOP)
	}
}

func TestCopyIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var got bytes.Buffer
	err := viewOf(fake{"large": strings.Repeat("x", 3<<20)}).Copy(ctx, "large", &got)
	if !errors.Is(err, context.Canceled) || got.Len() == 3<<20 {
		t.Errorf("got %d bytes, %v; want %v", got.Len(), err, context.Canceled)
	}
}

// repeating is a layer each of whose folders has the same names, down to a depth.
type repeating struct{ names, depth int }

func (l repeating) Lstat(name string) (File, error) {
	if strings.Count(name, "/") >= l.depth {
		return File{Mode: 0o644}, nil
	}
	return File{Mode: Mode(fs.ModeDir | 0o755)}, nil
}

func (l repeating) ReadDir(string) (names []string, err error) {
	for n := range l.names {
		names = append(names, fmt.Sprint(n))
	}
	return names, nil
}

func (l repeating) Open(string) (io.ReadCloser, error) { return nil, fs.ErrNotExist }

// The folders of a hostile store may have each other below them in many ways: a list of them ends.
func TestListsEnd(t *testing.T) {
	for name, test := range map[string]struct {
		layer repeating
		most  int
		want  string
	}{
		"deep": {repeating{2, 1 << 30}, maxPath, "file name too long"},
		"wide": {repeating{1500, 1}, maxListed, "has more than 2000000 files"},
	} {
		listed := 0
		err := View{test.layer}.List("", true, func(File) error { listed++; return nil })
		if err == nil || !strings.Contains(err.Error(), test.want) || listed > test.most {
			t.Errorf("%s: got %v after %d files, want %q after %d at most", name, err, listed, test.want, test.most)
		}
	}
}
