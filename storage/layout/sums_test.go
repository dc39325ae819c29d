package layout_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
)

var zeros = strings.Repeat("0", 64)

// sha256sum(1) reads the output of Encode, and ReadSums reads the output of sha256sum(1), also for
// names that it escapes.
func TestSumsEqualSha256sum(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		"a", "sub/b", " blank", "back\\slash", "new\nline", "carriage\rreturn", "lat\xedn", "two  blanks",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	output := fixtures.Run(t, "sh", "-c", "cd "+dir+" && sha256sum * ' blank' sub/* 2>/dev/null | sort -u; true")
	sums, err := layout.ReadSums(strings.NewReader(output), layout.MaxSums)
	if err != nil || len(sums) != 8 {
		t.Fatalf("got %d sums, error %v; want 8 of\n%s", len(sums), err, output)
	}
	if err := os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Encode(), 0o644); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "sh", "-c", "cd "+dir+" && sha256sum -c --strict --quiet SHA256SUMS")
}

func TestInvalidSums(t *testing.T) {
	good, many := zeros+"  store.squashfs\n", ""
	for i := range 300 {
		many += fmt.Sprintf("%s  %d\n", zeros, i)
	}
	for name, c := range map[string]struct{ text, want string }{
		"no sum":                 {"store.squashfs\n", "line 1"},
		"short sum":              {zeros[1:] + "  a\n", "line 1"},
		"upper case":             {strings.Repeat("A", 64) + "  a\n", "line 1"},
		"no path":                {zeros + "  \n", `path ""`},
		"absolute path":          {zeros + "  /etc/shadow\n", `path "/etc/shadow"`},
		"path above":             {good + zeros + "  ../a\n", `line 2: path "../a"`},
		"path above, inside":     {zeros + "  a/../../b\n", "path"},
		"path above, escaped":    {`\` + zeros + "  ..\\n/../../b\n", "path"},
		"path that is not clean": {zeros + "  a//b\n", "path"},
		"the folder itself":      {zeros + "  .\n", `path "."`},
		"twice":                  {good + good, `line 2: path "store.squashfs": repeated`},
		"an empty line":          {good + "\n" + good, "line 2"},
		"a line without end":     {strings.Repeat("0", 15_000), "token too long"},
		"a path without end":     {zeros + "  " + strings.Repeat("a", 10_000), "token too long"},
		"more than the limit":    {many, "more than 20000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := layout.ReadSums(strings.NewReader(c.text), 20_000)
			if !errors.Is(err, layout.ErrSums) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want ErrSums with %q", err, c.want)
			}
		})
	}
	crlf, err := layout.ReadSums(strings.NewReader(zeros+"  a\r\n"), 1000)
	if want := (layout.Sums{"a": zeros}); err != nil || !maps.Equal(crlf, want) {
		t.Errorf("line ends of Windows: got %v, error %v, want %v", crlf, err, want)
	}
}

func FuzzSums(f *testing.F) {
	f.Add([]byte(zeros + "  a/" + strings.Repeat(`\`, 5000) + "\n")) // a bug was that it was read, and not written again
	f.Add([]byte(zeros + "  a/b\n\\" + zeros + "  a\\\\b\\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		sums, err := layout.ReadSums(bytes.NewReader(text), 1<<16)
		if err != nil {
			return
		}
		for name := range sums {
			if !filepath.IsLocal(name) || name != filepath.Clean(name) {
				t.Errorf("got the path %q, want one below the folder", name)
			}
		}
		decoded, err := layout.ReadSums(bytes.NewReader(sums.Encode()), 1<<17)
		if err != nil || !maps.Equal(sums, decoded) {
			t.Errorf("got %q, error %v, want %q", decoded, err, sums)
		}
	})
}
