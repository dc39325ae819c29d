package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/crio"
)

// The unit that Ignition writes, under a real systemd: it becomes ready before CRI-O runs, shows that
// in its status, and feeds the watchdog.
func TestServiceUnderTheRealSystemd(t *testing.T) {
	t.Parallel()
	files := fixtures.Units(t, "live", "pinbox-node.service")
	unit := files["etc/systemd/system/pinbox-node.service"]
	here := strings.NewReplacer("/usr/local/bin/pinbox-node run", "/pinbox-node run --wait 1s", "WatchdogSec=60",
		"WatchdogSec=10").Replace(unit)
	if !strings.Contains(here, "--wait 1s") || !strings.Contains(here, "WatchdogSec=10\n") {
		t.Fatalf("got the unit\n%s\nwant run and WatchdogSec=60 in it", unit)
	}
	maps.Copy(files, map[string]string{
		"etc/systemd/system/pinbox-node.service": here,
		"etc/pinbox/sets.d/.keep":                "",
		"check": `set -ex
shows() { systemctl show -p $1 --value pinbox-node.service; }
fed=0
for tenth in $(seq 3000); do
	[ "$(shows WatchdogTimestampMonotonic)" = "$last" ] || fed=$((fed + 1))
	last=$(shows WatchdogTimestampMonotonic)
	[ $fed -gt 2 ] && break
	sleep 0.1
done
[ $fed -gt 2 ]
systemctl is-active pinbox-node.service
[ $(shows NRestarts) = 0 ]
shows StatusText | grep "CRI-O does not answer on /var/run/crio/crio.sock"
systemctl stop pinbox-node.service
systemctl show -p Result pinbox-node.service | grep Result=success
`,
		"etc/systemd/system/test.service": `[Unit]
DefaultDependencies=no
Wants=pinbox-node.service
After=pinbox-node.service
SuccessAction=exit
FailureAction=exit
FailureActionExitStatus=7
[Service]
Type=oneshot
ExecStart=/bin/sh /check
StandardOutput=tty
StandardError=tty
`,
	})
	out, code := fixtures.Machine(t, "test.service", files,
		map[string]string{"/pinbox-node": fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node")})
	if code != 0 {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}

// attachChain attaches two stores, each with the ones before as bases, and unmounts the first.
const attachChain = `set -ex
unit() { systemctl show -p "$2" "var-lib-pinbox-stores-$1.mount"; }
mounted() { mountpoint -q "/var/lib/pinbox/stores/$1"; }
systemctl start var-lib-pinbox-stores-0.mount
for n in 1 2; do
	/pinbox-node attach "/d$n" --wait 1s --set reserve=0 && exit 1 # CRI-O does not run
	mounted $n
	unit $n ActiveState | grep =active
	unit $n Before | grep crio.service
done
unit 1 BindsTo | grep -- -0.mount
unit 2 BindsTo | grep -- -0.mount
unit 2 BindsTo | grep -- -1.mount
(cd /var/lib/pinbox/stores/2 && exec sleep infinity) & # keeps the mount busy
sh /await sh -c "[ \$(readlink /proc/$!/cwd) = /var/lib/pinbox/stores/2 ]"
systemctl stop var-lib-pinbox-stores-0.mount
for n in 0 1 2; do mounted $n && exit 1; done
/pinbox-node mount >table && exit 1
grep -c 'are missing' table | grep 2
for n in 1 2; do mounted $n && exit 1; done
systemctl start var-lib-pinbox-stores-0.mount
/pinbox-node mount
for n in 1 2; do mounted $n; unit $n ActiveState | grep =active; done
umount /var/lib/pinbox/stores/2
/pinbox-node mount
mounted 2
echo script completed
`

// Under systemd, stores are mounted by units, each bound to the units of its bases: before a base is
// unmounted, the stores that need it are. Without the base they are not mounted again.
func TestStoresAreUnits(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	folders := map[string]string{"/pinbox-node": fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node")}
	sizes, from := []int{1000}, ""
	for _, name := range []string{"/base", "/d1", "/d2"} {
		o := appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", sizes...)))
		if from == "" {
			appliance.Build(t, o)
		} else {
			o.From = []string{from}
			if _, err := builder.Delta(t.Context(), o); err != nil {
				t.Fatal(err)
			}
		}
		folders[name], from, sizes = o.Out, o.Out, append(sizes, 2000+len(sizes))
	}
	out, code := fixtures.Script(t, attachChain, map[string]string{
		"etc/systemd/system/var-lib-pinbox-stores-0.mount": "[Mount]\nWhat=/base/store.squashfs\n" +
			"Where=/var/lib/pinbox/stores/0\nType=squashfs\nOptions=ro,loop\n",
		"etc/crio/crio.conf.d/50-pinbox-stores": string(crio.RenderStores(crio.Slots(), false)),
		"check":                                 attachChain,
	}, folders)
	if code != 0 || !strings.Contains(out, "script completed") {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}

// inSandboxes attaches a medium and mounts its store, each in the sandbox of its unit, and then runs
// commands there that a program which was taken over might run.
const inSandboxes = `set -ex
mounts() { grep -c " /var/lib/pinbox/stores/$1 " /proc/${2:-self}/mountinfo; }
systemctl start var-lib-pinbox-stores-0.mount pinbox-node.service
node=$(systemctl show --property MainPID --value pinbox-node.service)
drive=$(losetup --find --show --read-only /delta.iso)
attach=pinbox-attach@${drive#/dev/}.service
systemctl start $attach && exit 1 # CRI-O does not run
losetup --detach $drive
[ "$(mounts 1)" = 1 ]
mounts 1 $node
[ -e /etc/pinbox/sets.d/s.yaml ]
systemctl stop pinbox-node.service var-lib-pinbox-stores-1.mount
mounts 1 && exit 1
systemctl start pinbox-mount.service
[ "$(mounts 1)" = 1 ]
mount --bind /var/lib/pinbox/stores/1 /var/lib/pinbox/stores/1
[ "$(mounts 1)" = 2 ]
systemctl start pinbox-mount.service
[ "$(mounts 1)" = 1 ]
mount --bind /etc /var/lib/pinbox/stores/1 # this is no store
systemctl start pinbox-mount.service
[ "$(mounts 1)" = 1 ]
[ -e /var/lib/pinbox/stores/1/overlay ]
mkdir /etc/pinbox/keys.d
for unit in pinbox-mount.service $attach; do
	mkdir -p /run/systemd/system/$unit.d
	printf '[Service]\nExecStart=\nExecStart=/bin/sh /probe\n' >/run/systemd/system/$unit.d/probe.conf
done
systemctl daemon-reload
for unit in pinbox-mount.service $attach; do systemctl start $unit; done
echo script completed
`

// probe runs in a sandbox.
const probe = `set -x
touch /var/lib/pinbox/a /etc/pinbox/sets.d/a /etc/crio/crio.conf.d/a /run/pinbox/a /run/systemd/system/a || exit 1
mount -t tmpfs tmpfs /mnt && exit 1
umount -l /var/lib/pinbox/stores/1 && exit 1
unshare --mount true && exit 1
unshare --user true && exit 1
nsenter --target 1 --mount true && exit 1
mknod /run/pinbox/disk b 7 0 && exit 1
touch /etc/a && exit 1
touch /etc/pinbox/keys.d/a && exit 1
touch /usr/a && exit 1
touch /var/lib/kubelet/image_manager/a && exit 1
touch /usr/local/bin/a && exit 1
touch /root/a && exit 1
touch /etc/systemd/system/a && exit 1
echo 1 >/proc/sys/vm/drop_caches && exit 1
mkdir /sys/fs/cgroup/a && exit 1
hostname a && exit 1
date --set=2000-01-01 && exit 1
cp /bin/true /run/pinbox/ && chmod u+s /run/pinbox/true && exit 1
exit 0
`

// What a unit needs it may do: a medium is attached, and stores are mounted and unmounted on the node, not only
// in the mount namespace of the unit; a service that runs sees them. The rest it may not.
func TestUnitsInTheirSandboxes(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	o.Appliance.Metadata.Release = 1
	appliance.Build(t, o)
	d := appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000, 2000)))
	d.From, d.Appliance.Metadata.Release = []string{o.Out}, 2
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	medium := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: d.Out, Out: medium}); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"etc/systemd/system/var-lib-pinbox-stores-0.mount": "[Mount]\nWhat=/base/store.squashfs\n" +
			"Where=/var/lib/pinbox/stores/0\nType=squashfs\nOptions=ro,loop\n",
		"etc/crio/crio.conf.d/50-pinbox-stores": string(crio.RenderStores(crio.Slots(), false)),
		"etc/pinbox/node.json":                  `{"version": 1, "keepPrevious": 1, "wait": "1s", "reserve": "0"}`,
		"etc/pinbox/sets.d/.keep":               "", "probe": probe, "var/lib/kubelet/image_manager/.keep": "",
	}
	maps.Copy(files, fixtures.Units(t, "installed", "pinbox-attach@.service", "pinbox-mount.service", "pinbox-node.service"))
	out, code := fixtures.Script(t, inSandboxes, files, map[string]string{
		"/usr/local/bin/pinbox-node": fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node"),
		"/base":                      o.Out, "/delta.iso": medium,
	})
	if code != 0 || !strings.Contains(out, "script completed") {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
