package setup_test

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

func pin(name string) string { return "quay.io/art/" + name + "@sha256:" + strings.Repeat("a", 64) }

// The set of MicroShift has the images of all its release lists, and the pause image of CRI-O's configuration; its
// check of greenboot does not fail a boot.
func TestMicroShift(t *testing.T) {
	const lists = "usr/share/microshift/release/"
	files := with(rpm,
		lists+"release-x86_64.json", fmt.Sprintf(`{"release": {"base": "4.20.0"}, "images": {"dns": %q, "ovn": %q}}`,
			pin("dns"), pin("ovn")),
		lists+"release-olm-x86_64.json", fmt.Sprintf(`{"images": {"olm": %q, "dns": %q}}`, pin("olm"), pin("dns")),
		"etc/crio/crio.conf.d/10-microshift_amd64.conf", fmt.Sprintf("[crio.image]\npause_image = %q\n", pin("pod")))
	root := image(t, files)
	before := fixtures.Tree(t, root)
	s := of(t, root, nil)
	run(t, s)
	sets, _, err := pinset.DecodeSets(strings.NewReader(read(t, root, "etc/pinbox/sets.d/microshift.yaml")), "set")
	if err != nil || len(sets) != 1 {
		t.Fatalf("got %+v, %v; want one set", sets, err)
	}
	var got []string
	for _, image := range sets[0].Images {
		got = append(got, image.String())
	}
	slices.Sort(got)
	if diff := cmp.Diff([]string{pin("dns"), pin("olm"), pin("ovn"), pin("pod")}, got); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	const check = "etc/greenboot/check/wanted.d/50_pinbox.sh"
	if script := read(t, root, check); !strings.Contains(script, "\nexec /usr/local/bin/pinbox-node status\n") {
		t.Errorf("got the check %q, want the status", script)
	}
	if fixtures.Tree(t, root)["etc/greenboot/check/required.d"] != "" {
		t.Error("got a check in required.d, want none")
	}

	// An update of MicroShift's packages brings other images.
	write(t, root, lists+"release-x86_64.json", fmt.Sprintf(`{"images": {"dns": %q}}`, pin("dns-2")))
	r := run(t, s)
	if diff := cmp.Diff([]setup.Change{{Path: "/etc/pinbox/sets.d/microshift.yaml", Action: setup.Replace}},
		r.Changes); diff != "" {
		t.Errorf("after an update, changes (-want +got):\n%s", diff)
	}
	write(t, root, lists+"release-x86_64.json", files[lists+"release-x86_64.json"])
	undo(t, s)
	if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
		t.Errorf("after undo (-before +after):\n%s", diff)
	}

	write(t, root, lists+"release-x86_64.json", `{"images": {"dns": "quay.io/art/dns:latest"}}`)
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/"+lists+"release-x86_64.json") {
		t.Errorf("an image without a digest: got %v, want an error that names the list", err)
	}

	for _, text := range []string{"", "no JSON", `{"images": []}`} {
		write(t, root, lists+"release-x86_64.json", text)
		if _, err := s.Run(t.Context()); !errors.Is(err, setup.ErrReleaseList) || fault.Of(err).Exit != fault.Input ||
			!strings.Contains(err.Error(), "/"+lists+"release-x86_64.json") {
			t.Errorf("%q: got %v, want ErrReleaseList that names the list", text, err)
		}
	}

	// A folder that is there and cannot be read is not one without lists.
	folder := filepath.Join(root, path.Clean(lists))
	if err := errors.Join(os.RemoveAll(folder), os.Symlink("gone", folder)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "/"+path.Clean(lists)) {
		t.Errorf("a link to nothing: got %v, want an error that names the folder", err)
	}
}

// Podman and CRI-O see the stores by storage.conf, which then has the one list of them, or podman's quadlets do.
func TestPodman(t *testing.T) {
	const vendor, conf = "usr/share/containers/storage.conf", "etc/containers/storage.conf"
	const theirs = "[storage]\ndriver = \"overlay\"\n[storage.options]\nadditionalimagestores = [\n" +
		"\"/usr/lib/containers/storage\",\n]\npull_options = {enable_partial_images = \"true\"}\n"
	listed := func(root string) bool {
		return strings.Contains(read(t, root, crio.StoresPath), crio.Slots()[0])
	}
	podman := func(o *setup.Options) { o.Podman = true }
	t.Run("of the distribution", func(t *testing.T) {
		root := image(t, with(rpm, vendor, theirs))
		s := of(t, root, podman)
		run(t, s)
		got := read(t, root, conf)
		for _, want := range []string{
			`["/usr/lib/containers/storage", "/var/lib/pinbox/stores/0", `, `/var/lib/pinbox/stores/7"]`, "pull_options = ",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("got\n%s\nwant %s", got, want)
			}
		}
		if strings.Count(got, "additionalimagestores") != 1 || listed(root) {
			t.Errorf("got\n%s\nand %s, want one list of the stores", got, read(t, root, crio.StoresPath))
		}
		if r := run(t, s); r.Pending() {
			t.Errorf("again: got %+v, want nothing to do", r)
		}
		run(t, of(t, root, nil))
		if fixtures.Tree(t, root)[conf] != "" || !listed(root) {
			t.Errorf("got a %s, want none without --podman, and CRI-O's own list", conf)
		}
	})
	t.Run("of nobody", func(t *testing.T) {
		root := image(t, deb)
		run(t, of(t, root, podman))
		if got := read(t, root, conf); !strings.Contains(got, "graphroot = \"/var/lib/containers/storage\"") {
			t.Errorf("got\n%s\nwant the defaults", got)
		}
	})
	t.Run("of somebody else", func(t *testing.T) {
		root := image(t, with(rpm, conf, theirs))
		s := of(t, root, podman)
		r := run(t, s)
		quadlet := read(t, root, "etc/containers/systemd/container.d/50-pinbox.conf")
		if !strings.Contains(quadlet, "\nGlobalArgs=--storage-opt=additionalimagestore=/var/lib/pinbox/stores/7\n") ||
			read(t, root, conf) != theirs || !listed(root) {
			t.Errorf("got %s, want the stores for quadlets alone", quadlet)
		}
		if len(r.Notes) < 1 || !strings.Contains(strings.Join(r.Notes, "\n"), `additionalimagestores = ["/var/lib/pinbox`) {
			t.Errorf("got the notes %q, want the line for storage.conf", r.Notes)
		}
		// They add the line.
		line := `additionalimagestores = ["` + strings.Join(crio.Slots(), `", "`) + `"]`
		write(t, root, conf, "[storage]\ndriver = \"overlay\"\n[storage.options]\n"+line+"\n")
		run(t, s)
		if listed(root) || fixtures.Tree(t, root)["etc/containers/systemd/container.d/50-pinbox.conf"] != "" {
			t.Errorf("got the stores listed elsewhere, want them in %s alone", conf)
		}
	})
}
