package audit

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/vbatts/tar-split/tar/storage"
)

// encoded returns the line of an entry.
func encoded(t testing.TB, name string, e storage.Entry) string {
	t.Helper()
	e.SetName(name)
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Lines as they mostly are do not go through encoding/json, which takes several times as long.
func TestScannedLines(t *testing.T) {
	segment := storage.Entry{Type: storage.SegmentType, Payload: bytes.Repeat([]byte("\x00\xffa"), 1000), Position: 7}
	file := storage.Entry{Type: storage.FileType, Size: 1 << 50, Payload: []byte("12345678"), Position: 1 << 40}
	for name, tc := range map[string]struct {
		line string
		want bool
	}{
		"segment":           {encoded(t, "", segment), true},
		"first segment":     {encoded(t, "", storage.Entry{Type: storage.SegmentType, Payload: []byte("a")}), true},
		"file":              {encoded(t, "usr/bin/a b+c", file), true},
		"escaped name":      {encoded(t, `a"b`, file), false},
		"name with <":       {encoded(t, "a<b", file), false},
		"name beyond ASCII": {encoded(t, "ä", file), false},
		"name not in UTF-8": {encoded(t, "\xe4", file), false},
		"empty file":        {encoded(t, "a", storage.Entry{Type: storage.FileType}), false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := scanSplit([]byte(tc.line), nil); ok != tc.want {
				t.Errorf("%s: got %v, want %v", tc.line[:min(len(tc.line), 80)], ok, tc.want)
			}
			sameAsJSON(t, tc.line)
		})
	}
}

// sameAsJSON checks that a line which is scanned is what encoding/json reads.
func sameAsJSON(t *testing.T, line string) {
	t.Helper()
	got, ok := scanSplit([]byte(line), []byte("what was there before"))
	if !ok {
		return
	}
	var want splitEntry
	if err := json.Unmarshal([]byte(line), &want); err != nil {
		t.Fatalf("%q: got no error, want %v", line, err)
	}
	if got.Type != want.Type || got.Name != want.Name || got.NameRaw != nil || want.NameRaw != nil ||
		got.Size != want.Size || !bytes.Equal(got.Payload, want.Payload) {
		t.Errorf("%q: got %+v, want %+v", line, got, want)
	}
}

func FuzzScannedLines(f *testing.F) {
	const line = `{"type":1,"name":"a","size":10,"payload":"MTIzNDU2Nzg=","position":12}`
	for _, change := range []string{
		"", "1→01", "1→-1", "1→1.0", "1→1e1", "1→ 1", "10→9223372036854775808", `"a"→"a\u0062"`, `"a"→"\ud800"`, "a→\x7f", "a→\x00",
		"a→\xff", "size→Size", "size→siz\u0065", "MTI→MT\rI", "MTI→MT\\nI", "zg=→zh=", "zg=→zg", "MTI→M-_", "12}→012}", "12}→12}}",
		"12}→12} ", "12}→-0}", `"payload"→"payload" `, "10→0", "1→1,\"type\":2", "12}→12,\"size\":3}", "12}→1x}", "MTIzNDU2Nzg=→",
	} {
		old, replaced, _ := strings.Cut(change, "→")
		f.Add(strings.Replace(line, old, replaced, 1))
	}
	f.Fuzz(sameAsJSON)
}
