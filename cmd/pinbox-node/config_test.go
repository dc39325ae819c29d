package main

import (
	"os"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// writeDropin writes another file into CRI-O's folder of drop-ins.
func writeDropin(t *testing.T, n *crio.Node, name, content string) {
	t.Helper()
	if err := os.WriteFile(n.Etc("crio.conf.d/"+name), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Other files of CRI-O's configuration can keep images from being pinned. The status names the file,
// and a pass pins the images once the file is removed.
func TestConfigurationsThatPreventPins(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	for name, test := range map[string]struct {
		file, content string
		want          []string
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
			restore(t, n, []string{a})
			writeDropin(t, n, test.file, test.content)
			n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
			s := degraded(t, n, "", "")
			got := strings.Join(s.Errors, "\n")
			for _, want := range test.want {
				if !strings.Contains(got, want) {
					t.Errorf("got the errors %q, want %q", got, want)
				}
			}
			if _, all := pinnedByCRIO(t, n); len(all) != 2 {
				t.Errorf("got the images %v, want 2", all)
			}
			if strays := n.Strays(test.file); len(strays) > 0 {
				t.Errorf("got the files %v in crio.conf.d, want none", strays)
			}
			if err := os.Remove(n.Etc("crio.conf.d/" + test.file)); err != nil {
				t.Fatal(err)
			}
			healthy(t, n)
			wantPinned(t, n, a, b)
		})
	}
}
