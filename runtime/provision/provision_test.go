package provision_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

func parts(t *testing.T, n provision.Node) provision.Parts {
	t.Helper()
	p, err := n.Parts()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A MachineConfig must not hold what changes on the node: the pins and the sets, and nothing else.
func TestFilesThatChange(t *testing.T) {
	p := parts(t, provision.Node{
		Sets: []pinset.Set{{Name: "worker"}}, Registries: []byte("# mirrors\n"), PullSecret: []byte("{}"), AutoAttach: true,
	})
	var changing []string
	for _, f := range p.Files {
		if f.Changes {
			changing = append(changing, f.Path)
		}
	}
	want := []string{crio.PinnedImagesPath, layout.SetsDir + "/worker.yaml"}
	if diff := cmp.Diff(want, changing); diff != "" {
		t.Errorf("files that change (-want +got):\n%s", diff)
	}
}

// A node without a store of its own has no unit that mounts one, or that needs one.
func TestNodeWithoutStoreGolden(t *testing.T) {
	p := parts(t, provision.Node{
		Store: provision.Store{None: true, Program: pinset.Program{Digest: digest.FromString("program")}}, Program: "/usr/bin/pinbox-node",
		ImageStore: "/usr/share/pinbox/store",
	})
	var names []string
	for _, u := range p.Units {
		names = append(names, u.Name)
		if u.Content != "" {
			fixtures.Golden(t, "setup-"+u.Name, []byte(u.Content))
		}
		for _, content := range append([]provision.Dropin{{Content: u.Content}}, u.Dropins...) {
			for _, foreign := range []string{".mount", "/usr/local/bin", "sha256sum", "/pinbox/pinbox-node"} {
				if strings.Contains(content.Content, foreign) {
					t.Errorf("got %q in %s, want nothing of a store:\n%s", foreign, u.Name, content.Content)
				}
			}
		}
	}
	want := []string{"pinbox-.service", "crio.service", "pinbox-mount.service", "pinbox-firstboot.service", "pinbox-node.service",
		"pinbox-image-store.service"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	if last := p.Directories[len(p.Directories)-1]; len(p.Directories) != len(crio.Slots())+1 || last != layout.SetsDir {
		t.Errorf("got the directories %v, want all slots and %s", p.Directories, layout.SetsDir)
	}
	for _, f := range p.Files {
		if f.Path == layout.BootPath {
			t.Errorf("got %s, want no script that opens a store", f.Path)
		}
	}
}

// The real systemd-tmpfiles makes the directories, and changes none that exist.
func TestTmpfiles(t *testing.T) {
	fixtures.NeedRoot(t)
	root := t.TempDir()
	p := parts(t, provision.Node{})
	f := provision.Tmpfiles(p.Directories)
	conf := filepath.Join(root, f.Path)
	existing := filepath.Join(root, crio.Slots()[1])
	for _, err := range []error{
		os.MkdirAll(filepath.Dir(conf), 0o755), os.WriteFile(conf, f.Content, 0o644), os.MkdirAll(existing, 0o555),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(existing, 0o555); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "systemd-tmpfiles", "--root="+root, "--create", conf)
	for _, d := range p.Directories {
		want := os.FileMode(0o755)
		if d == crio.Slots()[1] {
			want = 0o555
		}
		if fi, err := os.Stat(filepath.Join(root, d)); err != nil || fi.Mode().Perm() != want {
			t.Errorf("got %v, %v; want %s with the mode %o", fi, err, d, want)
		}
	}
}
