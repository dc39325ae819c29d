package pinset_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

const (
	goodLock = `{
  "version": 1, "name": "edge", "release": 7,
  "platform": "linux/amd64",
  "sets": [{"name": "worker", "images": ["quay.io/x/a@SHA"]}],
  "images": [{
    "pin": "quay.io/x/a@SHA", "tags": ["quay.io/x/a:1"], "index": "SHA", "manifest": "SHA", "config": "SHA", "from": ["PinnedImageSet/worker"],
    "layers": [{"digest": "SHA", "size": 10, "diffID": "SHA", "unpackedSize": 30, "inodes": 2,
      "rootAttributes": "0755:0:0", "mediaType": "tar"}]
  }]
}`
	goodDelta = `{"version": 1, "bases": [{"store": "SHA", "lock": "SHA"}], "needs": [{"layer": "HEX", "link": "LINK"}]}`
)

// fill replaces SHA, HEX and LINK by a digest, an ID and a link name.
func fill(text string) string {
	sum := digest.FromString("x")
	return strings.NewReplacer("SHA", sum.String(), "HEX", sum.Encoded(), "LINK",
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ").Replace(text)
}

// A lock with an invalid field is refused. The error has the record and the field.
func TestInvalidLocks(t *testing.T) {
	if _, err := pinset.DecodeLock(strings.NewReader(fill(goodLock))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"escape in the name": {`"edge"`, `"\u001b[2J"`, "name "},
		"quote in the name":  {`"edge"`, `"a\""`, "name "},
		"long name":          {`"edge"`, `"` + strings.Repeat("a", 254) + `"`, "name: 254 bytes"},
		"release":            {`"release": 7`, `"release": -7`, "release -7: negative"},
		"release as text":    {`"release": 7`, `"release": "7"`, "release: "},
		"huge release":       {`"release": 7`, `"release": 1e30`, "release: "},
		"release twice":      {`"release": 7`, `"release": 7, "release": 8`, `field "release": repeated`},
		"platform":           {`"linux/amd64"`, `"plan9/amd64"`, `platform "plan9/amd64"`},
		"name of a set":      {`"worker", "images"`, `"../worker", "images"`, `sets[0]: name "../worker"`},
		"image of a set":     {`["quay.io/x/a@SHA"]}]`, `["quay.io/x/a"]}]`, "sets[0]: worker: image"},
		"pin":                {`"pin": "quay.io/x/a@SHA"`, `"pin": "quay.io/x/a:1"`, "images[0]: pin: "},
		"tag with a digest":  {`["quay.io/x/a:1"]`, `["quay.io/x/a@SHA"]`, "images[0]: tag "},
		"tag without a host": {`["quay.io/x/a:1"]`, `["a:1"]`, `images[0]: tag "a:1"`},
		"index":              {`"index": "SHA"`, `"index": "sha256:../.."`, `images[0]: index "sha256:../.."`},
		"manifest":           {`"manifest": "SHA"`, `"manifest": ""`, `images[0]: manifest ""`},
		"config":             {`"config": "SHA"`, `"config": "aaaa"`, `images[0]: config "aaaa"`},
		"blob":               {`"digest": "SHA"`, `"digest": "SHA0"`, "images[0]: layers[0]: digest "},
		"diffID": {
			`"diffID": "SHA"`, `"diffID": "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709"`, "images[0]: layers[0]: diffID ",
		},
		"size":          {`"size": 10`, `"size": -1`, "images[0]: layers[0]: size -1"},
		"unpacked size": {`"unpackedSize": 30`, `"unpackedSize": -1`, "images[0]: layers[0]: unpackedSize -1"},
		"inodes":        {`"inodes": 2`, `"inodes": -1`, "images[0]: layers[0]: inodes -1"},
		"root":          {`0755:0:0`, `755`, `images[0]: layers[0]: rootAttributes "755"`},
		"media type":    {`"tar"`, `"\u001b[2J"`, "images[0]: layers[0]: mediaType "},
		"input":         {`PinnedImageSet/worker`, `\u001b[2J`, "images[0]: from "},
		"label":         {`"worker", "images"`, `"worker", "labels": {"a": "\n"}, "images"`, "sets[0]: labels "},
		"set twice":     {`"sets": [`, `"sets": [{"name": "worker", "images": []}, `, `sets[1]: name "worker": repeated`},
		"pin twice": {
			`"images": [{`, `"images": [{"pin": "quay.io/x/a@SHA", "manifest": "SHA", "config": "SHA"}, {`,
			"images[1]: pin quay.io/x/a@sha256:",
		},
		"trailing data": {"}]\n}", "}]\n}{}", "after top-level value"},
		"newer":         {`"version": 1`, `"version": 2, "colour": "red"`, "a newer pinbox made it"},
		"no version":    {`"version": 1,`, ``, "no version; this pinbox reads version 1"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodLock, c.old, c.new, 1)
			_, err := pinset.DecodeLock(strings.NewReader(fill(text)))
			checkError(t, text != goodLock, err, pinset.ErrBadLock, c.want)
		})
	}
}

func TestInvalidDeltas(t *testing.T) {
	if _, err := pinset.DecodeDelta(strings.NewReader(fill(goodDelta))); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ old, new, want string }{
		"lock":                {`"lock": "SHA"`, `"lock": "aaaa"`, `bases[0]: lock "aaaa"`},
		"no lock":             {`, "lock": "SHA"`, ``, `bases[0]: lock ""`},
		"store":               {`"store": "SHA"`, `"store": "sha256:x"`, `bases[0]: store "sha256:x"`},
		"layer":               {`"HEX"`, `"../../etc"`, `needs[0]: layer "../../etc"`},
		"layer twice":         {`"needs": [`, `"needs": [{"layer": "HEX", "link": "LINK"}, `, "needs[1]: layer "},
		"layer as a digest":   {`"HEX"`, `"SHA"`, "needs[0]: layer "},
		"link is a path":      {`"LINK"`, `"../ABCDEFGHIJKLMNOPQRSTUVW"`, "needs[0]: link "},
		"link is too short":   {`"LINK"`, `"ABC"`, `needs[0]: link "ABC"`},
		"link with line feed": {`"LINK"`, `"ABCDEFGHIJKLMNOPQRSTUVWXYZ\n"`, "needs[0]: link "},
		"newer":               {`"version": 1`, `"version": 7, "thin": true`, "a newer pinbox made it"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(goodDelta, c.old, c.new, 1)
			_, err := pinset.DecodeDelta(strings.NewReader(fill(text)))
			checkError(t, text != goodDelta, err, pinset.ErrBadDelta, c.want)
		})
	}
}

// checkError checks the error of a changed document: it must be the sentinel and contain want, and
// be ErrNewer if want has the word newer; one of another version is not of the sentinel.
func checkError(t *testing.T, changed bool, err, sentinel error, want string) {
	t.Helper()
	switch {
	case changed && pinset.OtherVersion(err):
		sentinel = pinset.ErrOlder
		if strings.Contains(want, "newer") {
			sentinel = pinset.ErrNewer
		}
	}
	switch {
	case !changed:
		t.Fatal("the case does not change the document")
	case !errors.Is(err, sentinel) || !strings.Contains(err.Error(), want):
		t.Errorf("got error %v, want %v with %q", err, sentinel, want)
	case errors.Is(err, pinset.ErrNewer) != strings.Contains(want, "newer"):
		t.Errorf("got error %v, which is ErrNewer: %v, want the contrary", err, errors.Is(err, pinset.ErrNewer))
	}
}

// A lock that can be read can be written and read again, without a panic.
func FuzzDecodeLock(f *testing.F) {
	f.Add([]byte(fill(goodLock)))
	f.Add([]byte(`{"version":2}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		lock, err := pinset.DecodeLock(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, img := range lock.Images {
			_ = img.Config.Encoded() // panics if it is not a digest
		}
		var b bytes.Buffer
		if err := lock.Encode(&b); err != nil {
			t.Fatal(err)
		}
		if _, err := pinset.DecodeLock(&b); err != nil {
			t.Errorf("a lock that was read and written: got %v, want no error", err)
		}
	})
}

// The IDs of a delta become paths.
func FuzzDecodeDelta(f *testing.F) {
	f.Add([]byte(fill(goodDelta)))
	f.Fuzz(func(t *testing.T, text []byte) {
		d, err := pinset.DecodeDelta(bytes.NewReader(text))
		if err != nil {
			return
		}
		for _, n := range d.Needs {
			if strings.ContainsAny(n.Layer+n.Link, "./\x00\n") {
				t.Errorf("got the need %q, want a plain name", n)
			}
		}
		for _, b := range d.Bases {
			_ = b.Lock.Encoded()
		}
	})
}
