package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
)

// A file of CRI-O's configuration that is a mount of its own is written as long as it can be: a folder can, and a file
// is an error with a cure.
func TestMountsInTheConfigurationOfCRIO(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	change := func(what string) {
		t.Helper()
		for _, pins := range [][]string{{a}, {a, b}, {b}} {
			n.WriteSet("s.yaml", sample.SetNamed("s", pins...))
			if s := healthy(t, n); len(s.Images) != len(pins) {
				t.Errorf("%s: got %d images, want %d", what, len(s.Images), len(pins))
			}
			if pinned, _ := pinnedByCRIO(t, n); strings.Join(pinned, " ") != strings.Join(pins, " ") {
				t.Errorf("%s: got the pins %q, want %q", what, pinned, pins)
			}
		}
		if got := n.Run("ls", "-A", n.Etc("crio.conf.d")); got != "50-pinned-images\n" {
			t.Errorf("%s: got the files %s, want the drop-in alone", what, got)
		}
	}
	change("no mount")
	conf, drop := n.Etc("crio.conf.d"), n.Etc("crio.conf.d/50-pinned-images")
	// Those of other tests come along at the start, and go while this one runs.
	mounts := func() string {
		return n.Run("sh", "-c", `grep -e " $1" -e " /opt" /proc/self/mountinfo || true`, "sh", filepath.Dir(conf))
	}
	for what, script := range map[string]string{
		"a folder that is bound":  `cp -a "$1" /opt/conf.d && mount --bind /opt/conf.d "$1"`,
		"a tmpfs":                 `mount -t tmpfs tmpfs "$1"`,
		"a tmpfs, and one in it":  `etc=$(dirname "$1"); cp -a "$etc" /opt; mount -t tmpfs tmpfs "$etc"; cp -a /opt/crio/. "$etc"; mount -t tmpfs tmpfs "$1"`,
		"the folder above, bound": `mount --bind "$(dirname "$1")" "$(dirname "$1")"`,
	} {
		before := mounts()
		n.Run("sh", "-ec", "mount -t tmpfs tmpfs /opt; "+script, "sh", conf)
		change(what)
		n.Run("sh", "-ec", `for n in 1 2 3; do umount "$1" "$(dirname "$1")" /opt 2>/dev/null || true; done`, "sh", conf)
		if after := mounts(); after != before {
			t.Fatalf("%s: got the mounts\n%s\nwant those of before\n%s", what, after, before)
		}
	}
	n.Run("mount", "--bind", drop, drop)
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	r := n.Do("firstboot")
	if r.Code != 1 || !strings.Contains(r.Out+r.Err, drop+" is a mount of its own") || !strings.Contains(r.Out+r.Err, "folder") {
		t.Errorf("the drop-in: got exit code %d, want 1 and the reason\n%s%s", r.Code, r.Out, r.Err)
	}
	n.Run("umount", drop)
	healthy(t, n)
}
