package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
)

// setUpMachine makes a node of a machine with CRI-O, reboots it, and undoes that: each twice, and killed in between.
const setUpMachine = `set -ex
settings="--set wait=10s --set reserve=0 --set retry=50ms"
mkdir -p /run/bin
cat >/run/bin/pinbox-node <<EOF # with the settings of this small machine, where pinbox-node need not be installed yet
#!/bin/sh
verb=\$1
shift
[ \$verb != setup ] || set -- $settings --wait 3m "\$@"
exec /pinbox-node \$verb "\$@"
EOF
chmod +x /run/bin/pinbox-node
etc() { (cd /etc && find . ! -name machine-id ! -name '*.part' | sort && find . -type f ! -name machine-id -exec sha256sum {} + | sort); }
invocation() { systemctl show --property InvocationID --value crio.service; }
killed() { # a command, at moments until it has ended
	for time in 0.01 0.03 0.05 0.1 0.2 0.4 0.8; do
		timeout --signal=KILL $time "$@" && return
	done
	true
}
settled() { sh /await /pinbox-node status; }
if [ -e /var/image ]; then # it boots from an image that was set up
	settled
	mountpoint /var/lib/pinbox/stores/1
	guest | tee /run/guest
	grep "guest: ok" /run/guest
	systemctl restart pinbox-image-store # at the next boot it changes nothing
	settled
	test -z "$(systemctl --failed --plain --no-legend)"
	systemctl stop crio pinbox-node
	crio wipe --force
	systemctl start crio
	/pinbox-node setup --undo
	etc | diff /var/before -
	echo script completed
	exit
fi
if [ ! -e /var/reboots ]; then
	etc >/var/before
	/pinbox-node setup $settings --check && exit 1
	started=$(invocation)
	/pinbox-node setup $settings --check --output json | grep '"restart": true'
	etc | diff /var/before -
	[ $(invocation) = $started ]
	for check in --check ""; do # a store that is not there is found first
		code=0
		/pinbox-node setup $settings $check --store /run/nope >/run/out 2>&1 || code=$?
		[ $code = 3 ]
		grep /run/nope /run/out
		etc | diff /var/before -
	done
	killed /pinbox-node setup $settings
	grep -x "pinbox-node setup --store \." /appliance/runbook.sh
	PATH=/run/bin:$PATH sh /appliance/runbook.sh
	systemctl is-active microshift
	started=$(invocation)
	settled
	/pinbox-node setup $settings --check
	PATH=/run/bin:$PATH sh /appliance/runbook.sh | grep "nothing was copied"
	[ $(invocation) = $started ]
	grep stores/7 /etc/crio/crio.conf.d/50-pinbox-stores
	skopeo inspect --raw containers-storage:$IMAGE && exit 1
	/pinbox-node setup $settings --podman --wait 3m
	[ $(invocation) != $started ]
	settled
	grep stores/7 /etc/crio/crio.conf.d/50-pinbox-stores && exit 1
	skopeo inspect --raw containers-storage:$IMAGE
	/pinbox-node setup $settings --check --podman
	sh /etc/greenboot/check/wanted.d/50_pinbox.sh
	test -z "$(systemctl --failed --plain --no-legend)"
	guest | tee /run/guest
	grep "guest: 5 images" /run/guest
	grep "guest: ok" /run/guest
	touch /var/reboots
	systemctl reboot
	sleep infinity
fi
settled
mountpoint /var/lib/pinbox/stores/0 || mountpoint /var/lib/pinbox/stores/1
test -z "$(systemctl --failed --plain --no-legend)"
guest | tee /run/guest
grep "guest: ok" /run/guest
/pinbox-node setup --undo >/run/out 2>&1 && exit 1 # containers use the store
grep "the store is in use: by the container" /run/out
settled
systemctl stop crio pinbox-node
crio wipe --force # removes them
systemctl start crio pinbox-node
settled
systemctl stop crio # it is not known what uses the store
/pinbox-node setup --undo --wait 1s && exit 1
systemctl start crio
/pinbox-node setup --undo --check >/run/out && exit 1
grep "^the store ship-7 .*: would be detached" /run/out
killed /pinbox-node setup --undo
if [ -e /etc/pinbox/setup.json ]; then /pinbox-node setup --undo; fi
/pinbox-node setup --undo && exit 1
etc | diff /var/before -
find /var/lib -path '*pinbox*' | grep . && exit 1
[ ! -e /run/pinbox ]
[ ! -e /usr/local/bin/pinbox-node ]
systemctl is-active crio
systemctl list-units --all --plain --no-legend 'pinbox-*' | grep . && exit 1
/pinbox-node setup $settings --check | grep 50-pinbox-stores
started=$(invocation)
cp /pinbox-node /usr/bin/pinbox-node
pinbox-node setup $settings --root / --program /usr/bin/pinbox-node --store /appliance
[ $(invocation) = $started ]
[ ! -e /var/lib/pinbox ]
touch /var/image
systemctl reboot
sleep infinity
`

// A machine with the real CRI-O and systemd, no Ignition and no registry becomes a node with a store, stays one over
// a reboot, and becomes what it was. Kills in between do not matter, CRI-O is restarted once, and what refers to a
// store keeps it. Then it boots as one whose image was set up.
func TestSetUpMachine(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, pins.Sets())
	o.Appliance.Metadata.Name, o.Appliance.Metadata.Release = "ship-7", 1
	releaseList := `{"release": {"base": "4.20.0"}, "images": {"a": "` + pins.Other + `"}}`
	list := filepath.Join(t.TempDir(), "release-x86_64.json")
	if err := os.WriteFile(list, []byte(releaseList), 0o644); err != nil {
		t.Fatal(err)
	}
	o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.ImageLists{list}})
	appliance.Build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	live := func(name string) string {
		content, err := os.ReadFile(filepath.Join(fixtures.Root(t), "fixtures/live", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	files := map[string]string{
		"usr/lib/systemd/system/crio.service":              live("crio.service"),
		"etc/systemd/system-preset/30-distribution.preset": "enable crio.service\n",
		"etc/crio/crio.conf":                               live("crio.conf"),
		"etc/crio/crio.conf.d/10-pause":                    "[crio.image]\npause_image = \"" + pins.Pause + "\"\n",
		"etc/containers/policy.json":                       `{"default":[{"type":"insecureAcceptAnything"}]}`,
		"etc/containers/registries.conf":                   "unqualified-search-registries = []\n",
		"etc/hosts":                                        "127.0.0.1 localhost\n",
		"etc/resolv.conf":                                  "",
		"usr/share/microshift/release/release-x86_64.json": releaseList,
		"usr/lib/systemd/system/microshift.service":        "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n",
		"etc/systemd/system/check.service": `[Unit]
Requires=multi-user.target
After=multi-user.target
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
Environment=IMAGE=` + pins.Mixed + ` TIMEOUT=30s
ExecStart=/bin/sh /check
StandardOutput=tty
StandardError=tty
`,
		"check": setUpMachine,
	}
	out, code := fixtures.Boot(t, t.TempDir(), "check.service", files, map[string]string{
		"/usr/bin/crio":  crio.Program(t),
		"/usr/bin/pinns": fixtures.Peer(t, "pinns"),
		"/usr/bin/guest": fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/live/guest"),
		"/appliance":     o.Out,
		"/pinbox-node":   fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node"),
	})
	if code != 0 || !strings.Contains(out, "script completed") {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
