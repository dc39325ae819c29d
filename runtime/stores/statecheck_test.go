package stores_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

const goodState = `{"version":1,"stores":[{"id":"SHA","slot":"1","size":4096,"images":2,"token":"HEX"}],
	"releases":[{"id":"","store":"","sets":{}},{"id":"SHA","store":"SHA","sets":{"worker.yaml":"x"}}],
	"current":"SHA","setsToRemove":["old.yaml"],"removed":["SHA"],
	"compaction":{"store":{"id":"SHA","slot":"2","size":1,"images":1,"token":"HEX"},"replaces":["SHA"],"graphRoots":["/r"]}}`

// The digests and names of the state become paths.
func TestInvalidState(t *testing.T) {
	sum := digest.FromString("x")
	read := func(t *testing.T, text string) error {
		dir := t.TempDir()
		write(t, filepath.Join(dir, "state.json"), strings.NewReplacer("SHA", sum.String(), "HEX",
			sum.Encoded()).Replace(text))
		_, err := stores.ReadState(dir)
		return err
	}
	if err := read(t, goodState); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"newer":         {`"version":1`, `"version":2,"verity":{}`, "a newer pinbox made it"},
		"no version":    {`"version":1,`, ``, "no version"},
		"unknown field": {`"current"`, `"currant"`, "currant"},
		"store":         {`[{"id":"SHA","slot":"1"`, `[{"id":"aaaa","slot":"1"`, `stores[0]: id "aaaa"`},
		"slot":          {`"slot":"1"`, `"slot":"../etc"`, `stores[0]: slot "../etc"`},
		"token":         {`"token":"HEX"}],`, `"token":"x"}],`, `stores[0]: token "x"`},
		"size":          {`"size":4096`, `"size":-1`, "stores[0]: size -1"},
		"path":          {`"size":4096`, `"size":4096,"path":"a"`, `stores[0]: path "a"`},
		"size and offset": {
			`"size":4096`, `"size":9223372036854775807,"path":"/a","offset":1`, "stores[0]: size 9223372036854775807",
		},
		"no slot":          {`"slot":"1"`, `"slot":""`, "stores[0]: id "},
		"a store twice":    {`"stores":[`, `"stores":[{"id":"SHA","slot":"3","size":1,"images":1,"token":""},`, "stores[1]: id "},
		"name":             {`"slot":"1"`, `"slot":"1","name":"\u001b[2J"`, "stores[0]: name "},
		"detaching":        {`"slot":"1"`, `"slot":"1","detaching":["r"]`, `stores[0]: detaching: "r"`},
		"medium":           {`"slot":"1"`, `"slot":"1","medium":true`, `stores[0]: path ""`},
		"graph root":       {`"graphRoots":["/r"]`, `"graphRoots":["r"]`, `compaction: graphRoots: "r"`},
		"nothing replaced": {`"replaces":["SHA"]`, `"replaces":[]`, "compaction: replaces: empty"},
		"context":          {`"current"`, `"selinuxContext":"\"","current"`, "selinuxContext "},
		"refused":          {`"current"`, `"refused":{"id":"x","reason":""},"current"`, `refused: id "x"`},
		"release":          {`{"id":"SHA","store":"SHA"`, `{"id":"sha256:","store":"SHA"`, "releases[1]: id "},
		"thin delta":       {`"slot":"1"`, `"slot":"1","thin":"x"`, `stores[0]: thin "x"`},
		"its thin delta":   {`{"id":"SHA","store":"SHA"`, `{"id":"SHA","thin":"x","store":"SHA"`, `releases[1]: thin "x"`},
		"its store":        {`{"id":"SHA","store":"SHA"`, `{"id":"SHA","store":"b"`, `releases[1]: store "b"`},
		"its set":          {`"worker.yaml"`, `"../worker.yaml"`, "releases[1]: sets: "},
		"current":          {`"current":"SHA"`, `"current":"c"`, `current "c"`},
		"set to remove":    {`"old.yaml"`, `"/etc/passwd"`, `setsToRemove: "/etc/passwd"`},
		"removed":          {`"removed":["SHA"]`, `"removed":["SHA",""]`, `removed ""`},
		"compacted":        {`{"store":{"id":"SHA"`, `{"store":{"id":"x"`, `compaction: id "x"`},
		"what it replaces": {`"replaces":["SHA"]`, `"replaces":["x"]`, `compaction: replaces "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodState, c.old, c.new, 1)
			if text == goodState {
				t.Fatal("the case changes nothing")
			}
			err := read(t, text)
			if !errors.Is(err, stores.ErrState) || !strings.Contains(err.Error(), c.want) ||
				errors.Is(err, pinset.ErrNewer) != (name == "newer") {
				t.Errorf("got error %v, want ErrState with %q", err, c.want)
			}
		})
	}
}

// What is in a state that can be read becomes paths, mount options and messages.
func FuzzReadState(f *testing.F) {
	sum := digest.FromString("x")
	f.Add([]byte(strings.NewReplacer("SHA", sum.String(), "HEX", sum.Encoded()).Replace(goodState)))
	f.Add([]byte(`{"version":1,"stores":[null],"compaction":{}}`))
	dir := f.TempDir() // one for all inputs, which are tried one after the other
	f.Fuzz(func(t *testing.T, text []byte) {
		write(t, filepath.Join(dir, "state.json"), string(text))
		s, err := stores.ReadState(dir)
		if err != nil {
			return
		}
		for _, o := range s.Stores {
			_ = stores.Short(o.ID) + o.ID.Encoded()
			if strings.ContainsAny(o.Slot, "/\x00") || o.Slot == ".." {
				t.Errorf("got the slot %q", o.Slot)
			}
		}
		for _, r := range s.Releases {
			_ = stores.Short(r.ID) + stores.Short(r.Store)
		}
	})
}

// A message has what is no digest as it is, without a panic.
func TestShort(t *testing.T) {
	for text, want := range map[digest.Digest]string{
		"": "", "aaaa": "aaaa", "sha256:": "sha256:", digest.Digest(strings.Repeat("a", 80)): strings.Repeat("a", 80),
		digest.FromString("x"): digest.FromString("x").Encoded()[:12],
	} {
		if got := stores.Short(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
