package source

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// The documents of a catalog are parsed one by one: the parser of YAML takes a hundred times their size. A bug was 7
// GB for one of 60 MB.
func TestDocumentsOfACatalog(t *testing.T) {
	const bundle = "schema: olm.bundle\nname: %\n"
	large := "x: [" + strings.Repeat("a,", maxCatalogDocument/2) + "]\n"
	for name, c := range map[string]struct {
		text  string
		names []string
		fails bool
	}{
		"one":                     {strings.ReplaceAll(bundle, "%", "a"), []string{"a"}, false},
		"several":                 {"---\nname: a\n---\n---\nname: b\n--- # c\nname: c\n", []string{"a", "b", "c"}, false},
		"none":                    {"\n---\n", nil, false},
		"a large one":             {"name: a\n---\n" + large, []string{"a"}, true},
		"many that make a large":  {strings.Repeat("name: a\n---\n", maxCatalogDocument/8), nil, false},
		"one that cannot be read": {"name: [", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			next := yamlDocuments([]byte(c.text))
			var names []string
			for {
				var o catalogObject
				err := next(&o)
				if errors.Is(err, io.EOF) && !c.fails || err != nil && c.fails {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if text, ok := o.Name.(string); ok {
					names = append(names, text)
				}
			}
			if c.names != nil && !slices.Equal(names, c.names) {
				t.Errorf("got %q, want %q", names, c.names)
			}
		})
	}
}

// Names of signatures in an archive may be links to one file. A bug was 2.8 GB of them.
func TestSignaturesOfAnArchiveAreLimited(t *testing.T) {
	var all mirroredSignatures
	for range 3 {
		if err := all.add(bytes.Repeat([]byte("s"), 1000)); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.add(bytes.Repeat([]byte("s"), 1<<20)); !errors.Is(err, ErrOCMirror) {
		t.Errorf("got %v for one of a MiB, want %v", err, ErrOCMirror)
	}
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = all.add(bytes.Repeat([]byte("s"), 60<<10))
	}
	if !errors.Is(err, ErrOCMirror) {
		t.Errorf("got %v for 1000 of 60 KiB, want %v", err, ErrOCMirror)
	}
}
