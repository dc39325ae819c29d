package setup_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/runtime/setup"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
)

const crioUnit = "[Unit]\nDescription=CRI-O\n[Service]\nEnvironmentFile=-/etc/sysconfig/crio\n" +
	"ExecStart=/usr/bin/crio $CRIO_CONFIG_OPTIONS\n"

// Images of operating systems, as packages lay them out. CRI-O cannot be run in them.
var (
	rpm = map[string]string{
		"usr/lib/systemd/system/crio.service": crioUnit, "usr/bin/crio": "", "usr/local/bin/.keep": "",
		"etc/crio/crio.conf.d/10-crio.conf": "[crio.runtime]\ndefault_runtime = \"crun\"\n",
		"etc/sysconfig/crio":                "CRIO_CONFIG_OPTIONS=\n", "etc/systemd/system/.keep": "",
		"etc/selinux/config": "# comment\nSELINUX=enforcing\nSELINUXTYPE=targeted\n",
	}
	deb = map[string]string{
		"lib/systemd/system/crio.service": strings.Replace(crioUnit, "sysconfig", "default", 1), "usr/bin/crio": "",
		"etc/crio/crio.conf.d/10-crio.conf": "[crio.image]\n", "etc/default/crio": "# CRIO_CONFIG_OPTIONS=\n",
		"etc/systemd/system/.keep": "", "usr/local/bin/.keep": "",
	}
)

// with returns files with others in addition; those without content are removed.
func with(files map[string]string, others ...string) map[string]string {
	all := maps.Clone(files)
	for n := 0; n < len(others); n += 2 {
		all[others[n]] = others[n+1]
	}
	return all
}

func write(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func image(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		write(t, root, name, content)
	}
	return root
}

// of returns a setup of an image. The program is a small file.
func of(t *testing.T, root string, change func(*setup.Options)) setup.Setup {
	t.Helper()
	self := filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(self, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	o := setup.Options{Root: root, Self: self}
	if change != nil {
		change(&o)
	}
	s, err := setup.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, s setup.Setup) setup.Result {
	t.Helper()
	r, err := s.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func undo(t *testing.T, s setup.Setup) {
	t.Helper()
	if _, err := s.Undo(t.Context(), func(context.Context) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, root, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Images are set up and become what they were, each twice: of packages in either form, with and without SELinux, and
// with a program that the image has in its read-only /usr.
func TestImages(t *testing.T) {
	t.Parallel()
	const context = `"selinuxContext": "` + provision.DefaultSELinuxContext + `"`
	for name, test := range map[string]struct {
		files   map[string]string
		change  func(*setup.Options)
		context bool
	}{
		"rpm":            {rpm, nil, true},
		"deb":            {deb, nil, false},
		"SELinux is off": {with(rpm, "etc/selinux/config", "SELINUX=disabled\n"), nil, false},
		"read-only /usr": {with(rpm, "usr/bin/pinbox-node", "program"), func(o *setup.Options) {
			o.Program = "/usr/bin/pinbox-node"
		}, true},
		"with a store": {with(rpm, "usr/share/store/store.squashfs", ""), func(o *setup.Options) {
			o.ImageStore, o.AutoAttach = "/usr/share/store", true
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := image(t, test.files)
			if strings.HasPrefix(name, "read-only") {
				readOnlyUsr(t, root)
			}
			before := fixtures.Tree(t, root)
			s := of(t, root, test.change)
			if r, err := s.Check(t.Context()); err != nil || !r.Pending() || r.Restart {
				t.Fatalf("check: got %+v, %v; want changes and no restart", r, err)
			}
			if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
				t.Fatalf("check changes the image (-before +after):\n%s", diff)
			}
			run(t, s)
			after := fixtures.Tree(t, root)
			if r := run(t, s); r.Pending() {
				t.Errorf("again: got %+v, want nothing to do", r)
			}
			if diff := cmp.Diff(after, fixtures.Tree(t, root)); diff != "" {
				t.Errorf("again (-before +after):\n%s", diff)
			}
			if config := read(t, root, layout.NodeConfigPath); strings.Contains(config, context) != test.context {
				t.Errorf("got the configuration\n%s\nwant %s in it: %v", config, context, test.context)
			}
			if _, ok := after["var"]; ok {
				t.Error("got a folder var, want none: it is no part of an image")
			}
			for _, unit := range []string{"pinbox-node.service", "pinbox-firstboot.service"} {
				if out := fixtures.Run(t, "systemctl", "--root="+root, "is-enabled", unit); out != "enabled\n" {
					t.Errorf("got %s %q, want it enabled", unit, out)
				}
			}
			undo(t, s)
			if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
				t.Errorf("after undo (-before +after):\n%s", diff)
			}
			if _, err := s.CheckUndo(); !errors.Is(err, setup.ErrNotSetUp) {
				t.Errorf("undo again: got %v, want ErrNotSetUp", err)
			}
		})
	}
}

// A setup waits for one that ends: a killed process holds the lock until the disk has what it was writing. If that
// takes longer, nothing is changed.
func TestAnotherSetupEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := image(t, rpm)
		before := fixtures.Tree(t, root)
		for _, test := range []struct {
			after time.Duration
			want  error
		}{{time.Minute, setup.ErrBusy}, {200 * time.Millisecond, nil}} {
			other, err := os.Open(filepath.Join(root, "etc"))
			if err != nil {
				t.Fatal(err)
			}
			if err := filelock.Try(other); err != nil {
				t.Fatal(err)
			}
			end := time.AfterFunc(test.after, func() { _ = other.Close() })
			_, err = of(t, root, nil).Run(t.Context())
			if !errors.Is(err, test.want) {
				t.Errorf("another setup that ends after %s: got %v, want %v", test.after, err, test.want)
			}
			if end.Stop() {
				_ = other.Close()
				if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
					t.Errorf("beside another setup (-before +after):\n%s", diff)
				}
			}
		}
	})
}

// A node that copies image volumes has the unit for that, and is configured so.
func TestImageVolumes(t *testing.T) {
	root := image(t, rpm)
	copies := func(wanted bool) {
		t.Helper()
		run(t, of(t, root, func(o *setup.Options) { o.CopyVolumes = wanted }))
		_, err := os.Stat(filepath.Join(root, "etc/systemd/system/pinbox-volumes.service"))
		config := read(t, root, layout.NodeConfigPath)
		if strings.Contains(config, `"imageVolumes": "copy"`) != wanted || (err == nil) != wanted {
			t.Errorf("got the unit: %v, and\n%s\nwant both: %v", err, config, wanted)
		}
	}
	copies(true)
	copies(false)
}

// readOnlyUsr makes the /usr of an image read-only, where the program is not in the usual place.
func readOnlyUsr(t *testing.T, root string) {
	t.Helper()
	fixtures.NeedRoot(t)
	usr := filepath.Join(root, "usr")
	fixtures.Run(t, "mount", "--bind", usr, usr)
	t.Cleanup(func() { fixtures.Run(t, "umount", usr) })
	fixtures.Run(t, "mount", "-o", "remount,bind,ro", usr)
	if _, err := of(t, root, nil).Run(t.Context()); !errors.Is(err, setup.ErrReadOnly) {
		t.Fatalf("with the usual program: got %v, want ErrReadOnly", err)
	}
	undo(t, of(t, root, nil))
}

// An image of somebody else can have links to devices that have no end.
func TestFilesWithoutAnEnd(t *testing.T) {
	t.Run("a pipe", func(t *testing.T) {
		root := image(t, rpm)
		if err := syscall.Mkfifo(filepath.Join(root, "etc/crio/crio.conf.d/20-pipe"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := of(t, root, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "20-pipe is a pipe") {
			t.Errorf("got %v, want an error", err)
		}
	})
	for name, want := range map[string]string{
		"usr/share/microshift/release/release-x86_64.json": "more than 1048576 bytes",
		"etc/sysconfig/crio":           "more than 1048576 bytes",
		"etc/crio/crio.conf.d/20-zero": "more than 16777216 bytes",
	} {
		t.Run(name, func(t *testing.T) {
			root := image(t, rpm)
			file := filepath.Join(root, name)
			_ = os.Remove(file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.Symlink("/dev/zero", file)); err != nil {
				t.Fatal(err)
			}
			_, err := of(t, root, nil).Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with the limit", err)
			}
		})
	}
}

// What setup cannot use it refuses, and changes nothing.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  error
		text  string
	}{
		"of the Machine Config Operator": {
			with(rpm, "etc/machine-config-daemon/currentconfig", "{}"), setup.ErrManaged, "/etc/machine-config-daemon",
		},
		"before its first boot as one": {
			with(rpm, "etc/ignition-machine-config-encapsulated.json", "{}"), setup.ErrManaged, "encapsulated",
		},
		"no CRI-O":   {map[string]string{"etc/passwd": ""}, setup.ErrNoCRIO, "crio.service"},
		"no program": {map[string]string{"lib/systemd/system/crio.service": crioUnit}, setup.ErrNoCRIO, "/usr/bin/crio"},
		"a configuration that CRI-O cannot read": {
			with(deb, "etc/crio/crio.conf.d/20-mine.conf~", "[crio\n"), crio.ErrConfig, "20-mine.conf~",
		},
		"another folder": {
			with(rpm, "etc/sysconfig/crio", "CRIO_CONFIG_OPTIONS=\"--config-dir /etc/other\"\n"), setup.ErrNoCRIO, "/etc/other",
		},
		"somebody else's drop-in": {
			with(rpm, "etc/crio/crio.conf.d/50-pinbox-stores", "[crio]\n"), setup.ErrForeign, "50-pinbox-stores",
		},
		"a node of Ignition": {
			with(rpm, "etc/pinbox/node.json", "{}\n", "etc/systemd/system/pinbox-node.service", "[Unit]\n"),
			setup.ErrForeign, "pinbox-node.service",
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := image(t, test.files)
			before := fixtures.Tree(t, root)
			_, err := of(t, root, nil).Run(t.Context())
			if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %v with %q", err, test.want, test.text)
			}
			if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
				t.Errorf("the image has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A link of the image never leads out of it, and /usr/local of ostree is no place for the program.
func TestLinksOutOfTheImage(t *testing.T) {
	outside := t.TempDir()
	root := image(t, rpm)
	if err := os.Symlink(outside, filepath.Join(root, "etc/pinbox")); err != nil {
		t.Fatal(err)
	}
	if _, err := of(t, root, nil).Run(t.Context()); err == nil || !strings.Contains(err.Error(), "a link out of the image") {
		t.Errorf("got %v, want a refusal of the link", err)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("got the files %v outside of the image, want none", left)
	}
	root = image(t, with(deb, "usr/lib/.keep", ""))
	local := filepath.Join(root, "usr/local")
	if err := errors.Join(os.RemoveAll(local), os.Symlink("../var/usrlocal", local)); err != nil {
		t.Fatal(err)
	}
	if _, err := setup.New(setup.Options{Root: root}); !errors.Is(err, setup.ErrOptions) ||
		!strings.Contains(err.Error(), "--program /usr/bin/pinbox-node") {
		t.Errorf("got %v, want ErrOptions and the cure", err)
	}
}

// What somebody has changed stays; what setup does not need any more goes; what a newer pinbox-node has changed is
// replaced.
func TestChangesOfOthersStay(t *testing.T) {
	root := image(t, rpm)
	run(t, of(t, root, func(o *setup.Options) { o.AutoAttach = true }))
	mine := strings.Replace(read(t, root, layout.NodeConfigPath), "{", "{\n  \"imageVolumes\": \"copy\",", 1)
	write(t, root, layout.NodeConfigPath, mine)
	newer := of(t, root, nil)
	if err := os.WriteFile(newer.Self, []byte("a newer program"), 0o755); err != nil {
		t.Fatal(err)
	}
	r := run(t, newer)
	want := []setup.Change{
		{Path: provision.DefaultProgram, Action: setup.Replace},
		{Path: layout.NodeConfigPath, Action: setup.Keep},
		{Path: "/etc/systemd/system/pinbox-attach@.service", Action: setup.Remove},
		{Path: provision.UdevRulesPath, Action: setup.Remove},
	}
	if diff := cmp.Diff(want, r.Changes); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	if got := read(t, root, provision.DefaultProgram); got != "a newer program" {
		t.Errorf("got the program %q, want the newer one", got)
	}
	if r := run(t, newer); r.Pending() {
		t.Errorf("again: got %+v, want nothing to do", r)
	}
	undo(t, newer)
	if got := read(t, root, layout.NodeConfigPath); got != mine {
		t.Errorf("got %q after undo, want the file as it was changed", got)
	}
}

// Killed at any moment, the next run completes what was begun.
func TestKilledSetup(t *testing.T) {
	t.Parallel()
	root := image(t, rpm)
	before := fixtures.Tree(t, root)
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node")
	killer := fixtures.NewKiller(t)
	command := func(args ...string) *exec.Cmd {
		return exec.Command(program, append([]string{"setup", "--root", root}, args...)...)
	}
	finish := func(args ...string) map[string]string {
		t.Helper()
		if out, err := command(args...).CombinedOutput(); err != nil && !strings.Contains(string(out), "written nothing") {
			t.Fatalf("setup %v: %v\n%s", args, err, out)
		}
		return fixtures.Tree(t, root)
	}
	want := finish()
	finish("--undo")
	for range fixtures.Soak(t, 3) {
		for killer.Kill("setup", command()) && killer.Intn(3) > 0 {
		}
		if killer.Intn(2) > 0 { // else undo what was begun
			if diff := cmp.Diff(want, finish()); diff != "" {
				t.Fatalf("setup (-want +got):\n%s", diff)
			}
		}
		for killer.Kill("undo", command("--undo")) && killer.Intn(3) > 0 {
		}
		if diff := cmp.Diff(before, finish("--undo")); diff != "" {
			t.Fatalf("undo (-want +got):\n%s", diff)
		}
	}
	t.Logf("%d kills, %d ended before", killer.Kills(), killer.Ended)
}

// In a bare Debian, the real CRI-O says its version; an older one is refused.
func TestVersionInADebian(t *testing.T) {
	t.Parallel()
	fixtures.NeedRoot(t)
	root := t.TempDir()
	fixtures.Run(t, "tar", "-C", root, "-xf", fixtures.Peer(t, "debian.tar"), "--exclude=./usr/share", "--exclude=./var")
	fixtures.Run(t, "cp", fixtures.Peer(t, "crio"), filepath.Join(root, "usr/bin/crio"))
	write(t, root, "usr/lib/systemd/system/crio.service", crioUnit)
	if r := run(t, of(t, root, nil)); r.CRIO != "1.34.0" || len(r.Notes) > 0 {
		t.Errorf("got %+v, want CRI-O 1.34.0 and no notes", r)
	}
	older := filepath.Join(root, "usr/bin/crio")
	if err := os.WriteFile(older, []byte("#!/bin/sh\necho 'crio version 1.30.4'\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := of(t, root, nil).Run(t.Context()); !errors.Is(err, runtime.ErrUnsupported) ||
		!strings.Contains(err.Error(), "1.30.4") {
		t.Errorf("got %v, want ErrUnsupported with 1.30.4", err)
	}
	if err := os.WriteFile(older, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if r := run(t, of(t, root, nil)); !slices.ContainsFunc(r.Notes, func(note string) bool {
		return strings.Contains(note, "is unknown")
	}) {
		t.Errorf("got the notes %q, want that the version is unknown", r.Notes)
	}
}

// The units run the program of a package where it is, so that its upgrades reach them.
func TestProgramOfAPackage(t *testing.T) {
	for self, want := range map[string]string{
		provision.PackagedProgram: provision.PackagedProgram, "/root/pinbox-node": provision.DefaultProgram,
	} {
		s, err := setup.New(setup.Options{Root: "/", Self: self})
		if err != nil || s.Program != want {
			t.Errorf("%s: got the program %s, %v, want %s", self, s.Program, err, want)
		}
	}
}
