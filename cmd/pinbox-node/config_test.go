package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// dropin puts a file beside ours.
func dropin(t *testing.T, n *crio.Node, name, content string) {
	t.Helper()
	if err := os.WriteFile(n.Etc("crio.conf.d/"+name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What others have in CRI-O's configuration can keep images from being pinned.
// The node says which file it is, and mends itself once that is gone.
func TestConfigurationsAgainstUs(t *testing.T) {
	for name, test := range map[string]struct {
		file, content string
		says          []string
	}{
		"a later drop-in": {"99-admin", "[crio.image]\npinned_images = [\"quay.io/x/y\"]\n",
			[]string{"/etc/crio/crio.conf.d/99-admin comes later than /etc/crio/crio.conf.d/50-pinned-images"}},
		"an editor's backup": {"10-broken.conf~", "[crio.image\n",
			[]string{"/etc/crio/crio.conf.d/10-broken.conf~", "cannot read its configuration"}},
		"a lone star": {"99-all", "[crio.image]\npinned_images = [\"*\"]\n",
			[]string{"/etc/crio/crio.conf.d/99-all pins \"*\" alone, which crashes it"}},
		"pins outside of their table": {"99-upgrade-pin", "pinned_images = [\"quay.io/x/y\"]\n",
			[]string{"/etc/crio/crio.conf.d/99-upgrade-pin: pinned_images has no effect there"}},
		"what only CRI-O knows to be wrong": {"10-level", "[crio.runtime]\nlog_level = \"chatty\"\n",
			[]string{"CRI-O refused to reload: Unable to reload configuration", "chatty"}},
	} {
		t.Run(name, func(t *testing.T) {
			n, registry, _ := boot(t)
			a, b := pushed(t, registry, "app/a", 1000), pushed(t, registry, "app/b", 2000)
			n.WriteSet("s.yaml", sample.SetNamed("s", a))
			healthy(t, n)
			dropin(t, n, test.file, test.content)
			n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
			s := degraded(t, n, "", "")
			said := strings.Join(s.Errors, "\n")
			for _, want := range test.says {
				if !strings.Contains(said, want) {
					t.Errorf("says %q, want %q", said, want)
				}
			}
			if _, all := pinnedByCRIO(t, n); len(all) != 2 {
				t.Errorf("CRI-O is away, or lacks an image: %v", all)
			}
			if strays := n.Strays(test.file); len(strays) > 0 {
				t.Errorf("files in crio.conf.d: %v", strays)
			}
			if err := os.Remove(n.Etc("crio.conf.d/" + test.file)); err != nil {
				t.Fatal(err)
			}
			healthy(t, n)
			wantPinned(t, n, a, b)
		})
	}
}
