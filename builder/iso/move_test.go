package iso

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// An area that is too small for the config moves to the end of the image. Other programs find it in each tree, and
// the library of OpenShift's agent writes into it. Reset brings the base back.
func TestAreaThatGrows(t *testing.T) {
	for name, options := range fixtures.LiveISOs {
		t.Run(name, func(t *testing.T) {
			base, dir := fixtures.LiveISO(t, options...), t.TempDir()
			out, again := filepath.Join(dir, "out.iso"), filepath.Join(dir, "again.iso")
			config := []byte(noise(1_300_000))
			edit := Edit{Ignition: config, Grow: true, Additions: []Addition{addition(sparse(t, 5<<20+1))}}
			if err := Apply(t.Context(), base, out, edit); err != nil {
				t.Fatal(err)
			}
			content, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			i := open(t, content)
			if got, err := i.Ignition(); err != nil || !bytes.Equal(got, config) {
				t.Errorf("got a config of %d bytes, %v, want %d", len(got), err, len(config))
			}
			area, err := i.IgnitionArea()
			if err != nil || area.Length != 2<<20 {
				t.Fatalf("got an area of %d bytes, %v, want 2 MiB", area.Length, err)
			}
			want := content[area.Offset:][:area.Length]
			for _, tree := range trees(options) {
				file := "/images/ignition.img"
				if len(tree) == 0 {
					file = "/IMAGES/IGNITION.IMG;1"
				}
				got := fixtures.Run(t, "isoinfo", slices.Concat([]string{"-i", out}, tree, []string{"-x", file})...)
				if got != string(want) {
					t.Errorf("isoinfo %s: got %d bytes, want the area of %d", tree, len(got), len(want))
				}
			}
			if name == "as CoreOS" { // the library wants a boot catalog
				checkAgentISO(t, out, area.Length)
			}
			if err := restore(out, again); err != nil {
				t.Fatal(err)
			}
			if digest(t, again) != digest(t, base) {
				t.Error("reset: got another image, want the base")
			}
		})
	}
}

// checkAgentISO checks that the library finds the area of an image, and puts a config into it that fits.
func checkAgentISO(t *testing.T, image string, area int64) {
	t.Helper()
	dir, config := t.TempDir(), `{"ignition":{"version":"3.2.0"},"passwd":{}}`
	file, out := filepath.Join(dir, "config.ign"), filepath.Join(dir, "out.iso")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, fixtures.Peer(t, "agentiso"), image, file, out)
	i, f, err := OpenFile(out)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	found, err := i.IgnitionArea()
	if err != nil || found.Length != area {
		t.Errorf("the agent's library: got an area of %d bytes, %v, want %d", found.Length, err, area)
	}
	if got, err := i.Ignition(); err != nil || string(got) != config {
		t.Errorf("the agent's library: got %q, %v, want its config", got, err)
	}
}
