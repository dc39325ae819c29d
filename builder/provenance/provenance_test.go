package provenance

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
)

var (
	sumA = strings.Repeat("a", 64)
	sumB = strings.Repeat("b", 64)
	pin  = "quay.io/site/app@sha256:" + sumA
)

func example() Build {
	return Build{
		Version: "v1.2.3",
		Parameters: map[string]any{
			"appliance": "ship-7", "platform": "linux/amd64", "applianceFile": map[string]any{"sha256": sumB},
			"inputs": map[string]any{"image": []any{"quay.io/site/app:1"}},
		},
		Images: []string{pin},
		Files:  map[string]string{"pinbox/pinbox-node": sumB, "base.iso": sumA},
	}
}

var subjects = map[string]string{"store.squashfs": sumA, "pinbox.lock.json": sumB}

// The text is the same each time, and the validation of the in-toto library has nothing against it.
func TestStatementGolden(t *testing.T) {
	text, err := example().Statement(subjects)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if again, err := example().Statement(subjects); err != nil || !bytes.Equal(again, text) {
			t.Fatalf("got %v and\n%s, want the same as before:\n%s", err, again, text)
		}
	}
	fixtures.Golden(t, "provenance.json", text)
	got, err := Decode(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	want := Statement{subjects, map[string]string{"docker://" + pin: sumA, "pinbox/pinbox-node": sumB, "base.iso": sumA}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want -, got +:\n%s", diff)
	}
}

func TestStatementsThatAreRefused(t *testing.T) {
	text, err := example().Statement(subjects)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string][2]string{
		"another statement": {"in-toto.io/Statement/v1", "in-toto.io/Statement/v0.1"},
		"another predicate": {"slsa.dev/provenance/v1", "slsa.dev/provenance/v2"},
		"another build":     {"pinbox/build/v1", "pinbox/mend/v1"},
		"no digest":         {sumB, ""},
		"a short digest":    {sumB, "bb"},
		"no name":           {`"store.squashfs"`, `""`},
		"two of one name":   {`"store.squashfs"`, `"pinbox.lock.json"`},
		"no builder":        {`"id"`, `"version2"`},
		"another field":     {`"subject"`, `"subjects"`},
		"cut":               {"}\n}\n", ""},
		"long":              {"{\n", "{" + strings.Repeat(" ", maxSize)},
	} {
		t.Run(name, func(t *testing.T) {
			changed := strings.ReplaceAll(string(text), c[0], c[1])
			if changed == string(text) {
				t.Fatalf("got no %q in the statement, want one", c[0])
			}
			if _, err := Decode(strings.NewReader(changed)); !errors.Is(err, ErrInvalid) {
				t.Errorf("got %v, want %v", err, ErrInvalid)
			}
		})
	}
}

// No statement makes Decode panic, and each that it takes has a subject.
func FuzzDecode(f *testing.F) {
	text, err := example().Statement(subjects)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"_type":"https://in-toto.io/Statement/v1","subject":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Decode(bytes.NewReader(text))
		if err == nil && len(s.Subjects) == 0 {
			t.Errorf("got no subject of %q, want one", text)
		}
	})
}
