package builder_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// machine is what is special of a first boot.
type machine struct {
	// base of a live ISO that the appliance is built for.
	base string
	// padding enlarges a file of the configuration, without which no pod runs.
	padding string
	// label enlarges a set, so that the store brings it.
	label string
	// befall changes the store.
	befall func(store string)
	// late has the store come when all else is up.
	late bool
}

// firstBoot builds an appliance, has the real Ignition apply its config to a root,
// and boots that under a real systemd, with no network: its own units mount the
// store and start pinbox-node, in the order that they say.
func firstBoot(t *testing.T, m machine) (console string, code int) {
	t.Helper()
	fixtures.NeedRoot(t)
	registry, pins := fixtures.Samples(t)
	sets := bytes.Replace(pins.Sets(), []byte("labels:\n"), []byte("labels:\n    noise: '"+m.label+"'\n"), 1)
	o := options(t, sets)
	none := ""
	o.Appliance.Spec.Node.SELinuxContext = &none // Debian has no policy
	o.Appliance.Spec.ISO.Base = m.base
	o.Appliance.Spec.Ignition.Butane = []string{
		butane(t, "/etc/crio/crio.conf.d/10-pause", "[crio.image]\npause_image = \""+pins.Pause+"\"\n"+m.padding),
	}
	build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	store, root := filepath.Join(o.Out, artifact.StoreFile), t.TempDir()
	if m.befall != nil {
		m.befall(store)
	}
	crio.Ignite(t, filepath.Join(o.Out, artifact.IgnitionFile), root)
	place, arrive := "/run/media/iso/pinbox/store.squashfs", "true" // where a live system has it
	if m.late {
		place, arrive = "/late.squashfs",
			"mkdir -p /run/media/iso/pinbox; ln -s /late.squashfs "+place+"; systemctl start var-lib-pinbox-stores-0.mount"
	}
	return fixtures.Boot(t, root, "check.service", distribution(t, pins, arrive), map[string]string{
		place:            store,
		"/usr/bin/crio":  fixtures.Peer(t, "crio"),
		"/usr/bin/pinns": fixtures.Peer(t, "pinns"),
		"/usr/bin/guest": fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/live/guest"),
	})
}

// distribution is what stands for the node's own: CRI-O as on the live ISO of
// `make boot-test`, and what checks the node from within once it is up.
func distribution(t *testing.T, pins sample.Pins, arrive string) map[string]string {
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
		// a CRI-O that cannot start is soon told of
		"etc/pinbox/node.env": "PINBOX_NODE_FLAGS=\"--wait 10s\"\n",
		"etc/hosts":           "127.0.0.1 localhost\n",
		"etc/resolv.conf":     "", // every pod gets a copy
		"etc/systemd/system/check.service": `[Unit]
Requires=multi-user.target
After=multi-user.target
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
Environment=IMAGE=` + pins.Mixed + ` PATIENCE=30s
ExecStart=/bin/sh /check
StandardOutput=tty
StandardError=tty
`,
		"check": `set -ex
` + arrive + `
if [ ! -e /usr/local/bin/pinbox-node ]; then # it comes with a late store, when systemd tries again
	for n in $(seq 900); do systemctl --quiet is-active pinbox-node.service && break; sleep 0.1; done
	systemctl reset-failed
fi
for unit in var-lib-pinbox-stores-0.mount crio.service pinbox-node.service; do
	systemctl is-active $unit
done
guest
test -z "$(systemctl --failed --plain --no-legend)"
pinbox-node status
`,
	}
}

// A machine is as it should be at the end of its first boot: the store is mounted,
// CRI-O has every image, pinned, a pod runs, no unit has failed. What the Ignition
// area of an ISO has no room for is there before CRI-O starts.
func TestFirstBootOfAMachine(t *testing.T) {
	for name, m := range map[string]machine{
		"a store alone":                {},
		"a file that the store brings": {base: fixtures.LiveISO(t), padding: "# " + noise(100_000)},
		// Without the set that is still to come it once unpinned what that wants.
		"a set of a store that is late": {base: fixtures.LiveISO(t), label: noise(100_000), late: true},
	} {
		t.Run(name, func(t *testing.T) {
			console, code := firstBoot(t, m)
			for _, want := range []string{
				"all 5 images of 2 sets are pinned", "guest: 5 images", "guest: the pod says:", "hello from the store",
				"guest: all is well",
			} {
				if code != 0 || !strings.Contains(console, want) {
					t.Fatalf("exit code %d; the console is to show %q:\n%s", code, want, console)
				}
			}
			if strings.Contains(console, "unpin=") {
				t.Errorf("it has unpinned something:\n%s", console)
			}
			if brought := strings.Contains(console, "pinbox-files.service"); brought != (m.base != "") {
				t.Errorf("the store brings files: %v\n%s", brought, console)
			}
		})
	}
}

// The control: with a store that cannot be mounted nothing is well, but CRI-O is up.
func TestFirstBootWithABrokenStore(t *testing.T) {
	console, code := firstBoot(t, machine{befall: func(store string) {
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
			t.Fatalf("exit code %d; the console is to show %q:\n%s", code, want, console)
		}
	}
}
