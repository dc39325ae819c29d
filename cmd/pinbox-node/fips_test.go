package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/storage/signature"
)

// With GODEBUG=fips140=only, a node that requires signatures attaches a signed medium with a delta, one with a thin
// delta, and a folder, verifies and reports.
func TestFIPS(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	secret, public := fixtures.Key(t)
	signer, err := signature.ReadSigner(secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	pins := []string{push(t, registry, "app/a", 50_000)}
	o := release(t, 1, pins)
	o.Signer = signer
	n := appliance.Boot(t, o, "")
	n.Start()
	for from, name := range map[string]string{public: "keys.d/site.pub", write(t, `{"version": 1, "signed": "required"}`): "node.json"} {
		n.Run("install", "-D", "-m", "644", from, filepath.Join(n.Root, "etc/pinbox", name))
	}
	n.Env = append(n.Env, "GODEBUG=fips140=only")
	healthy(t, n)
	do := func(command string, args ...string) {
		t.Helper()
		if r := n.Do(command, args...); r.Code != 0 || strings.Contains(r.Out+r.Err, "panic") {
			t.Fatalf("%s %v: got exit code %d, want 0\n%s%s", command, args, r.Code, r.Out, r.Err)
		}
	}
	for i, form := range []string{"medium", "thin medium", "folder"} {
		pins = append(pins, push(t, registry, "app/a", 50_000+i, 1000+i))
		d := release(t, int64(2+i), pins)
		d.From, d.Thin, d.Signer = []string{o.Out}, form == "thin medium", signer
		if _, err := builder.Delta(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		source := d.Out
		if form != "folder" {
			source = filepath.Join(t.TempDir(), "delta.iso")
			if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: d.Out, Out: source}); err != nil {
				t.Fatal(err)
			}
		}
		do("attach", source)
		if s := readStatus(n); !s.Healthy() || len(s.Images) != len(pins) {
			t.Errorf("%s: got %d images, want %d, all pinned\n%+v", form, len(s.Images), len(pins), s.Errors)
		}
	}
	do("verify")
	do("rollback")
	do("report", "-o", filepath.Join(t.TempDir(), "node12.json"))
}

// write writes a file, and returns its path.
func write(t *testing.T, content string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}
