package ignition_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/layout"
)

// highest is the exposure that systemd-analyze may find in each service, times ten. All were at 9.6.
var highest = map[string]string{
	"pinbox-attach@.service": "34", "pinbox-check-disk.service": "17", "pinbox-fetch-store.service": "26",
	"pinbox-files.service": "27", "pinbox-firstboot.service": "34", "pinbox-image-store.service": "34",
	"pinbox-install-store.service": "17", "pinbox-mount.service": "25", "pinbox-node.service": "34",
	"pinbox-program.service": "25", "pinbox-save-store.service": "18", "pinbox-store.service": "20",
	"pinbox-volumes.service": "27",
}

// Each service has a sandbox, and limits of memory, threads and time. A command of systemd's that is exempt
// from the sandbox only installs the program that the configuration names.
func TestSandboxes(t *testing.T) {
	nodes := map[string]provision.Node{
		"setup": {Store: provision.Store{None: true}, Program: "/usr/bin/pinbox-node", ImageStore: "/usr/share/pinbox/store"},
		"files": {Store: configs(t)["live"].Store, StoreFiles: []provision.File{{Path: "/etc/motd", Mode: 0o644, User: "root", Group: "root"}}},
	}
	for name, config := range configs(t) {
		nodes[name] = config.Node
	}
	all := map[string]provision.Parts{}
	for name, node := range nodes {
		parts, err := node.Parts()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = parts
	}
	for name, beside := range map[string]bool{"installer": false, "agent": true} {
		parts, err := provision.Installer{Disk: "/dev/sda", Store: configs(t)["live"].Store, Beside: beside}.Parts()
		if err != nil {
			t.Fatal(err)
		}
		all[name] = parts
	}
	for name, parts := range all {
		root := t.TempDir()
		writeUnits(t, root, parts.Units)
		for _, u := range parts.Units {
			if !strings.HasSuffix(u.Name, ".service") || u.Content == "" {
				continue
			}
			t.Run(name+"/"+u.Name, func(t *testing.T) {
				checkSandbox(t, root, u)
			})
		}
	}
}

// writeUnits writes units and drop-ins below a root directory.
func writeUnits(t *testing.T, root string, units []provision.Unit) {
	t.Helper()
	write := func(name, content string) {
		path := filepath.Join(root, "etc/systemd/system", name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range units {
		if u.Content != "" {
			write(u.Name, u.Content)
		}
		for _, d := range u.Dropins {
			write(u.Name+".d/"+d.Name, d.Content)
		}
	}
}

func checkSandbox(t *testing.T, root string, u provision.Unit) {
	t.Helper()
	unit := strings.Replace(u.Name, "@.", "@sr0.", 1)
	out, err := exec.Command(fixtures.Need(t, "systemd-analyze"), "security", "--offline=true", "--no-pager", "--root="+root,
		"--threshold="+highest[u.Name], unit).CombinedOutput()
	if err != nil {
		t.Errorf("got %v, want an exposure of at most %s tenths\n%s", err, highest[u.Name], out)
	}
	t.Log(lastLine(string(out)))
	all, err := os.ReadFile(filepath.Join(root, "etc/systemd/system/pinbox-.service.d", fixtures.SandboxDropin))
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"\nMemoryMax=", "\nTasksMax=", "\nTimeoutStartSec="} {
		if !strings.Contains(string(all)+u.Content, limit) {
			t.Errorf("got no %q, want one:\n%s", limit[1:], u.Content)
		}
	}
	for line := range strings.Lines(u.Content) {
		name, command, _ := strings.Cut(strings.TrimSpace(line), "=")
		if strings.HasPrefix(name, "Exec") && strings.Contains(command[:min(3, len(command))], "+") &&
			strings.TrimLeft(command, "-+") != "/bin/sh "+layout.BootPath+" install_program" {
			t.Errorf("got a command without a sandbox, want none: %s", line)
		}
		if strings.Contains(line, "sh -c") {
			t.Errorf("got a program in a unit, want it in %s: %s", layout.BootPath, line)
		}
	}
}

// An administrator reads the config, signs and commits it. It had 30 lines of sandbox in each of five units, and a
// shell program of 1,307 characters in one line.
func TestConfigCanBeRead(t *testing.T) {
	for name, bu := range rendered(t) {
		seen, lines := map[string]int{}, strings.Split(string(bu), "\n")
		for i, line := range lines {
			content := strings.TrimSpace(line)
			foreign := strings.Contains(line, "pinned_images") || strings.HasPrefix(content, "- name: quay.io/") ||
				strings.HasPrefix(content, `"`) || strings.Contains(content, "http://boot.lab") || strings.HasPrefix(content, "- ssh-ed25519") // an installed config in that of its installer
			if len(line) > 120 && !foreign {
				t.Errorf("%s: line %d has %d characters, want at most 120: %s", name, i+1, len(line), line)
			}
			directive, _, _ := strings.Cut(content, "=")
			if strings.HasPrefix(directive, "Protect") || strings.HasPrefix(directive, "Lock") || strings.HasPrefix(directive, "SystemCall") {
				seen[content]++
			}
		}
		for directive, times := range seen {
			if times > 1 && !strings.Contains(directive, "ProtectKernelLogs") {
				t.Errorf("%s: got %s %d times, want it once", name, directive, times)
			}
		}
		most := 400
		if name == "live" { // with one set, as the demo has it, 14 lines less
			most = 284
		}
		if len(lines)-1 > most {
			t.Errorf("%s: got %d lines, want at most %d", name, len(lines)-1, most)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
