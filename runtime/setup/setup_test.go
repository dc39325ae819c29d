package setup_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
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
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
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
	store := storeOf(t, 7, goruntime.GOARCH)
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
		"with a store": {with(rpm, "usr/share/store/store.squashfs", store), func(o *setup.Options) {
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
			for _, unit := range []string{"pinbox-node.service"} {
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

// An image of somebody else can have files without an end.
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
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600),
				os.Truncate(file, 1<<40)); err != nil {
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
		"another driver": {
			with(deb, "etc/crio/crio.conf", "[crio]\nstorage_driver = \"btrfs\"\n"), setup.ErrNoCRIO, "storage driver btrfs",
		},
		"another driver of podman": {
			with(deb, "usr/share/containers/storage.conf", "[storage]\ndriver = \"vfs\"\n"), setup.ErrNoCRIO,
			"/usr/share/containers/storage.conf sets the storage driver vfs",
		},
		"another command line": {
			with(rpm, "etc/systemd/system/crio.service.d/10-mine.conf",
				"[Service]\nExecStart=\nExecStart=/usr/bin/crio --storage-opt overlay.mountopt=nodev\n"), setup.ErrNoCRIO,
			"10-mine.conf has --storage-opt overlay.mountopt=nodev",
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

// No link of the image leads out of it, be it one of a file that is read or written. A bug was that temporary files
// with names that can be foreseen were written through links: a file of the host became the program.
func TestLinksOutOfTheImage(t *testing.T) {
	const content = "of the host"
	for name, link := range map[string]string{
		"the folder of the manifest":   "etc/pinbox",
		"the manifest":                 "etc/pinbox/setup.json",
		"the temporary file of before": "etc/pinbox/.setup.part",
		"the program":                  "usr/local/bin/pinbox-node",
		"its temporary file of before": "usr/local/bin/pinbox-node.part",
		"the folder of drop-ins":       "etc/crio/crio.conf.d",
		"a drop-in of CRI-O":           "etc/crio/crio.conf.d/10-mine",
		"the configuration of CRI-O":   "etc/crio/crio.conf",
		"a unit":                       "etc/systemd/system/pinbox-node.service",
		"the unit of CRI-O":            "etc/systemd/system/crio.service",
		"options of the unit":          "etc/default/crio",
		"the configuration of storage": "etc/containers/storage.conf",
		"the database of packages":     "var/lib/dpkg/status",
		"the lists of MicroShift":      "usr/share/microshift/release",
	} {
		t.Run(name, func(t *testing.T) {
			outside := t.TempDir()
			target := filepath.Join(outside, "file")
			if err := os.WriteFile(target, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(link, ".d") || filepath.Base(link) == "pinbox" || filepath.Base(link) == "release" {
				target = outside
			}
			root := image(t, rpm)
			place := filepath.Join(root, link)
			if err := errors.Join(os.MkdirAll(filepath.Dir(place), 0o755), os.RemoveAll(place),
				os.Symlink(target, place)); err != nil {
				t.Fatal(err)
			}
			r, err := of(t, root, nil).Run(t.Context())
			t.Logf("%v, %q", err, r.Notes)
			if err != nil && !strings.Contains(err.Error(), link+" is a link to") && !errors.Is(err, setup.ErrForeign) {
				t.Errorf("got %v, want that the link is named", err)
			}
			got, readErr := os.ReadFile(filepath.Join(outside, "file"))
			fi, statErr := os.Stat(filepath.Join(outside, "file"))
			if err := errors.Join(readErr, statErr); err != nil || string(got) != content || fi.Mode() != 0o600 {
				t.Errorf("got %q, %v of the host, want it as it was", got, err)
			}
			if left, err := os.ReadDir(outside); err != nil || len(left) != 1 {
				t.Errorf("got the files %v outside of the image, want one", left)
			}
		})
	}
	root := image(t, with(deb, "usr/lib/.keep", ""))
	local := filepath.Join(root, "usr/local")
	if err := errors.Join(os.RemoveAll(local), os.Symlink("../var/usrlocal", local)); err != nil {
		t.Fatal(err)
	}
	if _, err := setup.New(setup.Options{Root: root}); !errors.Is(err, setup.ErrOptions) ||
		!strings.Contains(err.Error(), "--program /usr/bin/pinbox-node") {
		t.Errorf("got %v, want ErrOptions and the cure", err)
	}
}

// storeOf returns a squashfs with the documents of a store without images.
func storeOf(t *testing.T, number int64, arch string) string {
	t.Helper()
	lock := pinset.Lock{Version: pinset.LockVersion, Platform: pinset.Platform("linux/" + arch)}
	lock.ReleaseID = pinset.ReleaseID{Name: "edge", Number: number}
	var text strings.Builder
	if err := lock.Encode(&text); err != nil {
		t.Fatal(err)
	}
	tree, file := image(t, map[string]string{
		layout.OwnLock: text.String(), layout.ImagesLock: "token", layout.LayersLock: "token",
		"data": strings.Repeat("data", 1<<12),
	}), filepath.Join(t.TempDir(), "store.squashfs")
	fixtures.Run(t, "mksquashfs", tree, file, "-quiet", "-no-progress", "-processors", "1", "-noD", "-noF")
	return read(t, "", file)
}

// A store that each boot of the image would refuse is refused when it is set up, also behind a link of the image: with
// the errors of an attach. No file outside of the image is read.
func TestStoreOfTheImage(t *testing.T) {
	store := storeOf(t, 7, goruntime.GOARCH)
	outside := filepath.Join(t.TempDir(), "store.squashfs")
	write(t, "", outside, store)
	iso := filepath.Join(t.TempDir(), "iso")
	fixtures.Run(t, "xorriso", "-as", "mkisofs", "-quiet", "-rock", "-o", iso,
		image(t, map[string]string{"pinbox/store.squashfs": store}))
	medium := read(t, "", iso)
	for name, test := range map[string]struct {
		files map[string]string
		want  error
	}{
		"a store":                {map[string]string{"store.squashfs": store}, nil},
		"no number":              {map[string]string{"store.squashfs": storeOf(t, 0, goruntime.GOARCH)}, pinset.ErrNoNumber},
		"another architecture":   {map[string]string{"store.squashfs": storeOf(t, 7, "s390x")}, stores.ErrPlatform},
		"cut":                    {map[string]string{"store.squashfs": store[:len(store)/2]}, stores.ErrDamaged},
		"empty":                  {map[string]string{"store.squashfs": ""}, stores.ErrDamaged},
		"under another name":     {map[string]string{"edge-7.squashfs": store[:len(store)/2]}, stores.ErrDamaged},
		"the folder of a medium": {map[string]string{"pinbox/store.squashfs": "", "README": ""}, stores.ErrDamaged},
		"several":                {map[string]string{"a.squashfs": store, "b.squashfs": store}, stores.ErrNoStore},
		"none":                   {map[string]string{"README": ""}, stores.ErrNoStore},
		"in parts":               {map[string]string{"store.squashfs.001": store[:9]}, nil},
		"an ISO":                 {map[string]string{"": medium}, nil},
		"an ISO that is cut":     {map[string]string{"": medium[:1<<16]}, stores.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			root := image(t, rpm)
			for file, content := range test.files {
				write(t, root, filepath.Join("usr/share/store", file), content)
			}
			if err := os.Symlink("/usr/share/store", filepath.Join(root, "usr/share/latest")); err != nil {
				t.Fatal(err)
			}
			before := fixtures.Tree(t, root)
			paths := []string{"/usr/share/store", "/usr/share/latest"}
			if _, ok := test.files["store.squashfs"]; ok {
				paths = append(paths, "/usr/share/store/store.squashfs")
			}
			for _, path := range paths {
				_, err := setup.New(setup.Options{Root: root, ImageStore: path})
				if !errors.Is(err, test.want) || err != nil && !strings.Contains(err.Error(), path) {
					t.Errorf("%s: got %v, want %v", path, err, test.want)
				}
			}
			if diff := cmp.Diff(before, fixtures.Tree(t, root)); diff != "" {
				t.Errorf("the image was changed (-before +after):\n%s", diff)
			}
		})
	}
	root := image(t, with(rpm, "usr/share/linked/.keep", ""))
	if err := os.Symlink(outside, filepath.Join(root, "usr/share/linked/store.squashfs")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/usr/share/linked", "/usr/share/linked/store.squashfs"} {
		if _, err := setup.New(setup.Options{Root: root, ImageStore: path}); err == nil || fault.Of(err) == nil {
			t.Errorf("%s: got %v, want that a file outside of the image is not read", path, err)
		}
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

// Nothing of an image is run: the version is that of the program's build, or of Debian's package, or the one that is
// given. A bug was to run the program of crio.service in a bare chroot, which it could leave.
func TestVersionInAnImage(t *testing.T) {
	program := "#!/bin/sh\necho x >/ran\necho 'crio version 1.34.0'\n"
	status := "Package: cri-tools\nVersion: 1.29.0-1\n\nPackage: cri-o\nStatus: install ok installed\nVersion: 1:%s-1.1\n"
	removed := strings.Replace(status, "ok installed", "ok config-files", 1)
	for name, test := range map[string]struct {
		packages, given string
		built           bool
		want            string // "" if the version is unknown
		err             error
	}{
		"built from a module":    {"", "", true, "1.34.0", nil},
		"a package":              {fmt.Sprintf(status, "1.33.2"), "", false, "1.33.2", nil},
		"an older package":       {fmt.Sprintf(status, "1.30.4"), "", false, "", runtime.ErrUnsupported},
		"given":                  {"", "1.32.1", false, "1.32.1", nil},
		"given, and older":       {"", "1.30.4", false, "", runtime.ErrUnsupported},
		"neither":                {"", "", false, "", nil},
		"a package removed":      {fmt.Sprintf(removed, "1.30.4"), "", false, "", nil},
		"a database of others":   {"Package: crio-tools\nVersion: 1.33.2\n", "", false, "", nil},
		"a package that is cut":  {"Package: cri-o\nVers", "", false, "", nil},
		"given with a v":         {"", "v1.34", true, "1.34", nil},
		"given with a v, older":  {"", "v1.20", true, "", runtime.ErrUnsupported},
		"given, not as packaged": {fmt.Sprintf(status, "1.30.4"), "1.34.1", false, "1.34.1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			root := image(t, with(deb, "usr/bin/crio", program, "var/lib/dpkg/status", test.packages))
			if test.built {
				fixtures.Run(t, "cp", fixtures.Peer(t, "crio"), filepath.Join(root, "usr/bin/crio"))
			}
			r, err := of(t, root, func(o *setup.Options) { o.CRIOVersion = test.given }).Check(t.Context())
			if !errors.Is(err, test.err) || r.CRIO != test.want {
				t.Errorf("got %q, %v, want %q, %v", r.CRIO, err, test.want, test.err)
			}
			unknown := slices.ContainsFunc(r.Notes, func(note string) bool { return strings.Contains(note, "--crio-version") })
			if unknown != (test.want == "" && test.err == nil) {
				t.Errorf("got the notes %q", r.Notes)
			}
			if _, err := os.Stat(filepath.Join(root, "ran")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want that the program of the image was not run", err)
			}
		})
	}
}

// A version that does not parse would pass as one that is new enough.
func TestVersionThatIsNone(t *testing.T) {
	for _, text := range []string{"abc", "1", "1,20", "1.", "latest", "1.x", "-1.34", " 1.34"} {
		_, err := setup.New(setup.Options{Root: image(t, rpm), CRIOVersion: text})
		if f := fault.Of(err); f == nil || f.Exit != fault.Usage || !strings.Contains(f.Hint, "1.34.1") {
			t.Errorf("%q: got %v, want an error of usage with an example", text, err)
		}
	}
	for _, text := range []string{"1.34", "v1.34.1", "1.35.0-dev", "1.33.5-2.rhaos4.20.gitd0ea985.el9"} {
		if _, err := setup.New(setup.Options{Root: image(t, rpm), CRIOVersion: text}); err != nil {
			t.Errorf("%q: got %v, want that it is taken", text, err)
		}
	}
}

// An image that is none is not taken for one without CRI-O.
func TestRootThatIsNoFolder(t *testing.T) {
	dir := image(t, map[string]string{"file": ""})
	for _, name := range []string{"nope", "file"} {
		root := filepath.Join(dir, name)
		if _, err := setup.New(setup.Options{Root: root}); !errors.Is(err, setup.ErrRoot) ||
			!strings.Contains(err.Error(), root) || fault.Of(err).Exit != fault.Input {
			t.Errorf("got %v, want ErrRoot of %s", err, root)
		}
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
