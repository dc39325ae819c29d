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
	"github.com/pinbox/pinbox/runtime/provision"
)

// The real udev, with the rules of a distribution too, attaches a medium that is inserted, and nothing else.
func TestUdevRules(t *testing.T) {
	fixtures.NeedRoot(t)
	bu, err := ignition.Render(ignition.Config{Node: provision.Node{AutoAttach: true}})
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
	ours := string(files[provision.UdevRulesPath])
	fixtures.Golden(t, "70-pinbox.rules", []byte(ours))
	// The test uses a loop device as a drive.
	drive := strings.Replace(ours, "/devices/virtual/*", "/devices/none/*", 1)
	const changed = `ENV{DISK_MEDIA_CHANGE}="1"` + "\n" // the kernel sets it
	for name, test := range map[string]struct {
		label, action, rules string
		want                 bool
	}{
		"plugged in":              {"PINBOX", "add", drive, true},
		"inserted":                {"PINBOX", "change", changed + drive, true},
		"another medium":          {"PINBOX2", "add", drive, false},
		"another medium inserted": {"PINBOX2", "change", changed + drive, false},
		"another change":          {"PINBOX", "change", drive, false},
		"removed":                 {"PINBOX", "remove", drive, false},
		"a loop device":           {"PINBOX", "add", ours, false},
	} {
		t.Run(name, func(t *testing.T) {
			device, out := udev(t, test.label, test.action, test.rules)
			if warning := regexp.MustCompile(`(?m)^/run/udev/rules.d/70-pinbox.rules:.*`).FindString(out); warning != "" {
				t.Errorf("got the warning %q of udev, want none", warning)
			}
			run := "run: '/usr/bin/systemctl --no-block restart pinbox-attach@" + filepath.Base(device) + ".service'"
			if strings.Contains(out, run) != test.want || strings.Contains(out, "pinbox-attach@") != test.want {
				t.Errorf("got this output of udev, want the command %q: %v\n%s", run, test.want, out)
			}
		})
	}
}

// udev runs `udevadm test` for a medium, with the rules and those of this machine, but without /run and /dev
// of this machine.
func udev(t *testing.T, label, action, rules string) (device, out string) {
	t.Helper()
	dir := t.TempDir()
	medium := filepath.Join(dir, "medium.iso")
	fixtures.Run(t, "genisoimage", "-quiet", "-joliet", "-rock", "-V", label, "-o", medium, fixtures.Root(t)+"/docs")
	device = fixtures.LoopDevice(t, medium, "--read-only")
	if err := os.WriteFile(filepath.Join(dir, "rules"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(fixtures.Need(t, "unshare"), "--mount", "sh", "-ec", `
major=$(stat -c %t "$0") minor=$(stat -c %T "$0")
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /dev
mknod "$0" b 0x$major 0x$minor
install -D -m 644 rules /run/udev/rules.d/70-pinbox.rules
udevadm test --action="$1" /sys/class/block/"${0##*/}" 2>&1`, device, action)
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("udevadm: %v\n%s", err, output)
	}
	return device, string(output)
}
