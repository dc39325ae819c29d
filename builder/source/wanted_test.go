package source_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/runtime/wanted"
	"github.com/pinbox/pinbox/storage/signature"
)

func TestWanted(t *testing.T) {
	now := time.Now()
	report := func(dir, node string, age time.Duration, names ...string) {
		t.Helper()
		r := fleet.Report{Time: now.Add(-age)}
		for _, name := range names {
			r.Wanted = append(r.Wanted, wanted.Image{Name: name})
		}
		path := filepath.Join(dir, node+age.String()+".json")
		if err := fleet.NewObject(node, "", &r).Write(path, signature.Signer{}); err != nil {
			t.Fatal(err)
		}
	}
	write := func(dir, name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		make func(dir string)
		want []string // names with their origins
		text string   // of the warnings, or of the error
	}{
		"of two nodes": {func(dir string) {
			report(dir, "a", 0, "quay.io/x/both:1", "quay.io/x/one"+digest)
			report(dir, "b", 0, "quay.io/x/both:1")
		}, []string{"quay.io/x/both:1 report of a, b", "quay.io/x/one" + digest + " report of a"},
			"quay.io/x/both:1 is taken since it was wanted on a, b"},
		"the newest of a node": {func(dir string) {
			report(dir, "a", time.Hour, "quay.io/x/old:1")
			report(dir, "a", 0, "quay.io/x/new:1")
		}, []string{"quay.io/x/new:1 report of a"}, "quay.io/x/new:1 is taken"},
		"nothing": {func(dir string) { report(dir, "a", 0) }, nil, "no image is wanted on the 1 nodes"},
		"a file that is no report": {func(dir string) {
			report(dir, "a", 0, "quay.io/x/new:1")
			write(dir, "b.json", "{}")
		}, nil, "b.json: no report of a node"},
		"a name that is none": {func(dir string) {
			write(dir, "a.json", `{"apiVersion":"pinbox.dev/v1alpha1","kind":"NodeImageStatus","metadata":{"name":"a"},`+
				`"status":{"wanted":[{"name":"https://user:secret@quay.io/x"}]}}`)
		}, nil, "a.json: no report of a node"},
		"no reports": {func(string) {}, nil, "no nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			c.make(dir)
			m, err := source.Read(t.Context(), []source.Entry{{Source: &source.Wanted{dir}}}, source.Options{Appliance: "edge"})
			text := strings.Join(m.Warnings, "\n")
			if err != nil {
				text = err.Error()
			}
			var got []string
			for _, images := range m.Named {
				for _, n := range images.Names {
					got = append(got, n.String()+" "+n.Origin)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" || !strings.Contains(text, c.text) {
				t.Errorf("got %q, want %q; names (-want +got):\n%s", text, c.text, diff)
			}
		})
	}
}
