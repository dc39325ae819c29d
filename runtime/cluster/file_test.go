package cluster_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/cluster"
	"github.com/pinbox/pinbox/storage/pinset"
)

const goodKnown = `{"version":1,"state":"current","since":"2026-01-01T00:00:00Z","resourceVersion":"7","registered":true,
	"roles":["infra"],"sets":[{"name":"a","uid":"u","generation":3,"role":"infra","images":["quay.io/x/a` + digest + `"],
	"resourceVersion":"5"},{"name":"b","uid":"v","generation":1,"images":["quay.io/x/b"],"keptSince":"2026-01-02T00:00:00Z"}]}`

// What nothing writes is refused.
func TestInvalidKnown(t *testing.T) {
	k, err := cluster.DecodeKnown(strings.NewReader(goodKnown))
	if err != nil {
		t.Fatal(err)
	}
	sets, errs := k.Decode()
	var file *pinset.FileError
	if len(sets) != 1 || sets[0].Revision() != "3" || len(errs) != 1 || !errors.As(errs[0], &file) || file.File != "b" {
		t.Errorf("got %+v, %v, want the set a, and an error of b, whose image has no digest", sets, errs)
	}
	if kept := k.Kept(); fmt.Sprint(kept) != "[b]" {
		t.Errorf("got %v kept, want b", kept)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"newer":         {`"version":1`, `"version":2,"more":{}`, "a newer pinbox made it"},
		"unknown field": {`"roles"`, `"rules"`, "rules"},
		"state":         {`"current"`, `"\u001b[2J"`, "state "},
		"version":       {`"resourceVersion":"7"`, `"resourceVersion":"\u001b"`, "control characters"},
		"roles":         {`["infra"]`, `["\u001b"]`, "control characters"},
		"name":          {`"name":"a"`, `"name":"../a"`, `sets[0]: name "../a"`},
		"order":         {`"name":"a"`, `"name":"c"`, `sets[1]: name "b": not sorted`},
		"twice":         {`"name":"a"`, `"name":"b"`, `sets[1]: name "b": not sorted`},
		"uid":           {`"uid":"u"`, `"uid":"\u001b"`, "sets[0]: uid "},
		"generation":    {`"generation":3`, `"generation":0`, "sets[0]: generation 0"},
		"role":          {`"role":"infra"`, `"role":"\u001b"`, "sets[0]: role "},
		"images":        {`["quay.io/x/b"]`, `["` + strings.Repeat(`a","`, 500) + `b"]`, "sets[1]: 501 images"},
		"image":         {`"quay.io/x/b"`, `"` + strings.Repeat("a", 448) + `"`, "sets[1]: images[0]: 448 bytes"},
		"sets": {`"sets":[`, `"sets":[` + strings.Repeat(`{"name":"0","uid":"","generation":1,"images":[]},`, 4999),
			"5001 sets"},
		"size": {`{"version"`, strings.Repeat(" ", 16<<20) + `{"version"`, "more than 16 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := cluster.DecodeKnown(strings.NewReader(strings.Replace(goodKnown, c.old, c.new, 1)))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Whatever the document has: an error, or sets of which each can be read or has an error.
func FuzzDecodeKnown(f *testing.F) {
	f.Add(goodKnown)
	f.Add(strings.Replace(goodKnown, "u", "\\u", 1))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := cluster.DecodeKnown(strings.NewReader(text))
		if err != nil {
			return
		}
		if sets, errs := k.Decode(); len(sets)+len(errs) != len(k.Sets) {
			t.Errorf("got %d sets and %d errors, want %d in all", len(sets), len(errs), len(k.Sets))
		}
	})
}
