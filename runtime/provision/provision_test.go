package provision_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

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
func TestNodeWithoutStore(t *testing.T) {
	p := parts(t, provision.Node{
		Store: provision.Store{None: true, Program: digest.FromString("program")}, Program: "/usr/bin/pinbox-node",
	})
	var names []string
	for _, u := range p.Units {
		names = append(names, u.Name)
		for _, content := range append([]provision.Dropin{{Content: u.Content}}, u.Dropins...) {
			for _, foreign := range []string{".mount", "/usr/local/bin", "sha256sum", "/pinbox/pinbox-node"} {
				if strings.Contains(content.Content, foreign) {
					t.Errorf("got %q in %s, want nothing of a store:\n%s", foreign, u.Name, content.Content)
				}
			}
		}
	}
	want := []string{"crio.service", "pinbox-mount.service", "pinbox-firstboot.service", "pinbox-node.service"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("units (-want +got):\n%s", diff)
	}
	if len(p.Directories) != len(crio.Slots()) {
		t.Errorf("got the directories %v, want all slots", p.Directories)
	}
	for _, f := range p.Files {
		if f.Path == layout.OpenStorePath {
			t.Errorf("got %s, want no script that opens a store", f.Path)
		}
	}
}
