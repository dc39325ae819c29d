package ignition_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/ignition"
)

// The rules, judged by the real udev among the rules that a distribution has, for a
// real medium: what is plugged in is attached, and nothing else.
func TestUdevRules(t *testing.T) {
	fixtures.NeedRoot(t)
	bu, err := ignition.Render(ignition.Config{AutoAttach: true})
	if err != nil {
		t.Fatal(err)
	}
	ign, err := ignition.Translate(bu)
	if err != nil {
		t.Fatal(err)
	}
	files, err := ignition.Files(ign)
	if err != nil {
		t.Fatal(err)
	}
	ours := string(files[ignition.UdevRulesPath])
	fixtures.Golden(t, "70-pinbox.rules", []byte(ours))
	// A loop device stands in for a drive.
	drive := strings.Replace(ours, "/devices/virtual/*", "/devices/none/*", 1)
	const changed = `ENV{DISK_MEDIA_CHANGE}="1"` + "\n" // a word of the kernel's
	for name, test := range map[string]struct {
		label, action, rules string
		want                 bool
	}{
		"plugged in":               {"PINBOX", "add", drive, true},
		"put into a drive":         {"PINBOX", "change", changed + drive, true},
		"another medium":           {"PINBOX2", "add", drive, false},
		"another medium in it":     {"PINBOX2", "change", changed + drive, false},
		"a change of another kind": {"PINBOX", "change", drive, false},
		"pulled out":               {"PINBOX", "remove", drive, false},
		"a loop device":            {"PINBOX", "add", ours, false},
	} {
		t.Run(name, func(t *testing.T) {
			device, out := udev(t, test.label, test.action, test.rules)
			if complaint := regexp.MustCompile(`(?m)^/run/udev/rules.d/70-pinbox.rules:.*`).FindString(out); complaint != "" {
				t.Error(complaint)
			}
			run := "run: '/usr/bin/systemctl --no-block restart pinbox-attach@" + filepath.Base(device) + ".service'"
			if strings.Contains(out, run) != test.want || strings.Contains(out, "pinbox-attach@") != test.want {
				t.Errorf("udev says:\n%s", out)
			}
		})
	}
}

// udev tells what it would do about a medium. It sees these rules beside those of
// this machine, and neither /run nor /dev of this machine.
func udev(t *testing.T, label, action, rules string) (device, out string) {
	t.Helper()
	dir := t.TempDir()
	medium := filepath.Join(dir, "medium.iso")
	fixtures.Run(t, "genisoimage", "-quiet", "-joliet", "-rock", "-V", label, "-o", medium, fixtures.Root(t)+"/docs")
	device = strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", "--read-only", medium))
	t.Cleanup(func() { fixtures.Run(t, "losetup", "--detach", device) })
	if err := os.WriteFile(filepath.Join(dir, "rules"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("unshare", "--mount", "sh", "-ec", `
major=$(stat -c %t "$0") minor=$(stat -c %T "$0")
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev
mknod "$0" b 0x$major 0x$minor
install -D -m 644 rules /run/udev/rules.d/70-pinbox.rules
udevadm test --action="$1" /sys/class/block/"${0##*/}" 2>&1`, device, action)
	cmd.Dir = dir
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("udevadm: %v\n%s", err, said)
	}
	return device, string(said)
}
