package builder_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

// machine describes what differs in one first boot.
type machine struct {
	// base is the live ISO that the appliance is built for.
	base string
	// padding enlarges a file of the configuration that pods need.
	padding string
	// label enlarges a set, so that it is in the store and not in the Ignition config.
	label string
	// change changes the store.
	change func(store string)
	// late makes the store available only after the machine is up.
	late bool
	// later makes a medium with a later release, which is attached when the machine is up.
	later bool
}

// firstBoot builds an appliance, applies its config to a root directory with the real Ignition, and boots
// that with a real systemd without a network. The units of the config mount the store and start
// pinbox-node.
func firstBoot(t *testing.T, m machine) (console string, code int) {
	t.Helper()
	fixtures.NeedRoot(t)
	registry, pins := fixtures.Samples(t)
	sets := bytes.Replace(pins.Sets(), []byte("labels:\n"), []byte("labels:\n    noise: '"+m.label+"'\n"), 1)
	o := options(t, sets)
	o.NodeBinary = nodeBinary(t)
	none := ""
	o.Appliance.Spec.Node.SELinuxContext = &none // Debian has no policy
	o.Appliance.Spec.ISO.Base = m.base
	o.Appliance.Spec.Ignition.Butane = []string{
		butane(t, "/etc/crio/crio.conf.d/10-pause", "[crio.image]\npause_image = \""+pins.Pause+"\"\n"+m.padding),
	}
	o.Appliance.Spec.Node.AutoAttach, o.Appliance.Metadata.Release = m.later, 1
	// A busy machine starts CRI-O late; the disk may be any.
	o.Appliance.Spec.Node.Wait, o.Appliance.Spec.Node.Reserve = layout.Duration(3*time.Minute), &bytesize.Reserve{}
	build(t, o)
	binds := map[string]string{
		"/usr/bin/crio":  crio.Program(t),
		"/usr/bin/pinns": fixtures.Peer(t, "pinns"),
		"/usr/bin/guest": fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/live/guest"),
	}
	then := "true"
	if m.later {
		pin, err := registry.PushStack(t.Context(), "app/later", 1000, 2000)
		if err != nil {
			t.Fatal(err)
		}
		later := options(t, sample.Set("worker", pin))
		later.NodeBinary = o.NodeBinary
		later.From, later.Appliance.Metadata.Release = []string{o.Out}, 2
		if _, err := builder.Delta(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		medium := filepath.Join(t.TempDir(), "later.iso")
		if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: later.Out, Out: medium}); err != nil {
			t.Fatal(err)
		}
		binds["/later.iso"], then = medium, attachLater+"grep "+pin+" /etc/crio/crio.conf.d/50-pinned-images"
	}
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	store, root := filepath.Join(o.Out, layout.StoreFile), t.TempDir()
	if m.change != nil {
		m.change(store)
	}
	crio.Ignite(t, filepath.Join(o.Out, artifact.IgnitionFile), root)
	path, arrive := "/var/lib/pinbox/store.squashfs", "true"
	if m.base != "" {
		path = "/run/media/iso/pinbox/store.squashfs" // in a live system
	}
	if m.late {
		path, arrive = "/late.squashfs", "mkdir -p /run/media/iso/pinbox; ln -s /late.squashfs "+path+arriveLate
	}
	binds[path] = store
	return fixtures.Boot(t, root, "check.service", distribution(t, pins, arrive, then), binds)
}

// arriveLate mounts a store that is there now, and waits until systemd has tried again to start the program in it.
const arriveLate = `
systemctl start var-lib-pinbox-stores-0.mount
sh /await systemctl --quiet is-active pinbox-node.service
systemctl reset-failed
`

// nodeBinary is the real program.
func nodeBinary(t *testing.T) string {
	t.Helper()
	return fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node")
}

// attachLater attaches a medium as udev does, and restarts CRI-O.
const attachLater = `drive=$(losetup --find --show --read-only /later.iso)
systemctl start pinbox-attach@${drive#/dev/}.service
losetup --detach $drive
pinbox-node status
systemctl restart crio.service
mountpoint /var/lib/pinbox/stores/1
pinbox-node status
test -z "$(systemctl --failed --plain --no-legend)"
`

// distribution returns the files that a distribution would have: CRI-O as on the live ISO of
// `make boot-test`, and a unit that checks the node after its boot. arrive is a command that runs first, and then
// one that runs last.
func distribution(t *testing.T, pins sample.Pins, arrive, then string) map[string]string {
	t.Helper()
	live := func(name string) string {
		content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/live", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	return map[string]string{
		"usr/lib/systemd/system/crio.service":              live("crio.service"),
		"etc/systemd/system-preset/30-distribution.preset": "enable crio.service\n",
		"etc/crio/crio.conf":                               live("crio.conf"),
		"etc/containers/policy.json":                       `{"default":[{"type":"insecureAcceptAnything"}]}`,
		"etc/containers/registries.conf":                   "unqualified-search-registries = []\n",
		"etc/hosts":                                        "127.0.0.1 localhost\n",
		"etc/resolv.conf":                                  "", // every pod gets a copy
		"etc/systemd/system/check.service": `[Unit]
Requires=multi-user.target
After=multi-user.target
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
Environment=IMAGE=` + pins.Mixed + ` TIMEOUT=3m
ExecStart=/bin/sh /check
StandardOutput=tty
StandardError=tty
`,
		"check": `set -ex
` + arrive + `
for unit in var-lib-pinbox-stores-0.mount crio.service pinbox-node.service; do
	systemctl is-active $unit
done
guest
test -z "$(systemctl --failed --plain --no-legend)"
pinbox-node status
` + then + "\n",
	}
}

// At the end of its first boot the store is mounted, CRI-O has all images pinned, a pod runs, and no unit
// has failed. Files that do not fit in the Ignition area of an ISO exist before CRI-O starts.
func TestFirstBootOfAMachine(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]machine{
		"only a store":        {},
		"a file in the store": {base: fixtures.LiveISO(t), padding: "# " + noise(100_000)},
		// A bug was to unpin the images of the set before the store with the set was mounted.
		"a set of a store that is late": {base: fixtures.LiveISO(t), label: noise(100_000), late: true},
	} {
		t.Run(name, func(t *testing.T) {
			console, code := firstBoot(t, m)
			for _, want := range []string{
				"all 5 images of 2 sets are pinned", "guest: 5 images", "guest: the pod prints:", "hello from the store",
				"guest: ok",
			} {
				if code != 0 || !strings.Contains(console, want) {
					t.Fatalf("got exit code %d, want 0 and %q on the console:\n%s", code, want, console)
				}
			}
			if strings.Contains(console, "unpin=") {
				t.Errorf("got images that were unpinned, want none:\n%s", console)
			}
			if files := strings.Contains(console, "pinbox-files.service"); files != (m.base != "") {
				t.Errorf("got %v for files in the store, want %v\n%s", files, m.base != "", console)
			}
		})
	}
}

// A machine that runs gets a later release from a medium, and has it after a restart of CRI-O: with the real CRI-O,
// in the sandboxes of the units.
func TestLaterReleaseOfAMachine(t *testing.T) {
	t.Parallel()
	console, code := firstBoot(t, machine{later: true})
	const want = "all 1 images of 1 sets are pinned"
	if code != 0 || !strings.Contains(console, want) {
		t.Errorf("got exit code %d, want 0 and %q on the console:\n%s", code, want, console)
	}
}

// The control: if the store cannot be mounted, units fail, but CRI-O starts.
func TestFirstBootWithADamagedStore(t *testing.T) {
	t.Parallel()
	console, code := firstBoot(t, machine{change: func(store string) {
		f, err := os.OpenFile(store, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(make([]byte, 96)); err != nil { // its superblock
			t.Fatal(err)
		}
	}})
	for _, want := range []string{
		"Failed to mount var-lib-pinbox-stores-0.mount", "Started crio.service", "Failed to start pinbox-firstboot.service",
	} {
		if code != 7 || !strings.Contains(console, want) {
			t.Fatalf("got exit code %d, want 7 and %q on the console:\n%s", code, want, console)
		}
	}
}
