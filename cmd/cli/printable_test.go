package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"etc/key\tein/größe\n":      "etc/key\tein/größe\n",
		"日本語 \u00a0😀":               "日本語 \u00a0😀",
		"\x1b[2J\a\r\x00\x7f":       `\u001b[2J\u0007\u000d\u0000\u007f`,
		"\u009b31m\u0085":           `\u009b31m\u0085`,           // C1: CSI and NEL
		"a\x9bb\xff":                `a\x9bb\xff`,                // not UTF-8
		"\u202etxt.exe\u2066\u200f": `\u202etxt.exe\u2066\u200f`, // the direction of text
		"a\u2028b\u200bc\ufeff":     `a\u2028b\u200bc\ufeff`,     // lines, and nothing to be seen
		"\U000e0041":                `\udb40\udc41`,              // a tag, as JSON escapes it
	} {
		if got := escape(text); got != want {
			t.Errorf("%q: got %s, want %s", text, got, want)
		}
	}
}

const hostile = "\x1b[2J\u009b\u202e"

// Results, errors, notes and progress have no character that a terminal acts on, and JSON keeps its meaning.
func TestOutputIsPrintable(t *testing.T) {
	_, _, stderr := runProgram(t.Context(), errors.New(hostile), "work")
	_, _, failure := runProgram(t.Context(), errors.New(hostile), "work", "--output=json")
	var lines, bar, result bytes.Buffer
	progress := newProgress(printable{Writer: &lines}, "", "auto", 0)
	progress.Note(hostile)
	progress.Begin(hostile, 1)
	progress.Close()
	drawn := newBars(&bar)
	drawn.show(stage{name: hostile, total: 10})
	drawn.note(hostile)
	drawn.close()
	table := Table(printable{Writer: &result})
	fmt.Fprintf(table, "%s\t%s\n", hostile, hostile)
	if err := table.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `\u001b[2J\u009b\u202e`
	for name, c := range map[string]struct{ got, want string }{
		"error": {stderr, "tool: " + want + "\n"}, "error in JSON": {failure, `{"error":"` + want + `","exitCode":1}` + "\n"},
		"lines": {lines.String(), want + "\n" + want + "\n"}, "table": {result.String(), want + "  " + want + "\n"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %q, want %q", name, c.got, c.want)
		}
	}
	if got := bar.String(); strings.Count(got, want) < 2 || strings.Contains(got, hostile) {
		t.Errorf("bars: got %q, want %q", got, want)
	}
	var decoded Failure
	if err := json.Unmarshal([]byte(failure), &decoded); err != nil || decoded.Error != hostile {
		t.Errorf("got %q, %v, want %q", decoded.Error, err, hostile)
	}
}
