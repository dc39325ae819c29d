package main

import (
	"context"
	"maps"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/watch"
)

// dead uses a store in place on a disk that then answers nothing, to pinbox-node and to mount(8). The limits are
// shorter than those of the units.
const dead = `set -ex
mount -o remount,bind,rw /disk
systemctl start var-lib-pinbox-stores-0.mount
pinbox-node attach --in-place /disk/delta.squashfs --wait 1s --set reserve=0 && exit 1 # CRI-O does not run
systemctl stop var-lib-pinbox-stores-1.mount
for unit in pinbox-mount.service var-lib-pinbox-stores-1.mount; do
	mkdir -p /etc/systemd/system/$unit.d
done
printf '[Service]\nTimeoutStartSec=3\nTimeoutStopSec=1\n' >/etc/systemd/system/pinbox-mount.service.d/limit.conf
printf '[Mount]\nTimeoutSec=1\n' >/etc/systemd/system/var-lib-pinbox-stores-1.mount.d/limit.conf
systemctl daemon-reload
touch /disk/hang
sh /await test -e /disk/hangs
start=$(date +%s)
systemctl start crio.service
echo "CRI-O started after $(($(date +%s) - start)) s"
systemctl is-active crio.service
systemctl is-failed pinbox-mount.service
start=$(date +%s)
systemctl start var-lib-pinbox-stores-1.mount && exit 1
echo "mount ended after $(($(date +%s) - start)) s"
systemctl is-failed var-lib-pinbox-stores-1.mount
touch /disk/end || true # the disk may be gone before the file is closed
echo script completed
`

// A disk that does not answer delays CRI-O by the time limit of pinbox-mount.service. systemd abandons a mount(8) that
// waits for the disk in the kernel in the same way. With a real systemd.
func TestDeadDeviceDelaysCRIOForALimitedTime(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	o := appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	appliance.Build(t, o)
	d := appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000, 2000)))
	d.From = []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	disk := fixtures.NewFaultyDisk(t)
	fixtures.Run(t, "cp", d.Out+"/delta.squashfs", d.Out+"/SHA256SUMS", disk.Dir)
	ctx, stop := context.WithCancel(t.Context())
	var hanging sync.WaitGroup
	defer hanging.Wait()
	defer stop()
	hanging.Go(func() { hangOnRequest(ctx, disk) })
	files := fixtures.Units(t, "installed", "pinbox-mount.service", "crio.service.d/10-pinbox-stores.conf")
	maps.Copy(files, map[string]string{
		"etc/systemd/system/var-lib-pinbox-stores-0.mount": "[Unit]\nDefaultDependencies=no\n[Mount]\n" +
			"What=/base/store.squashfs\nWhere=/var/lib/pinbox/stores/0\nType=squashfs\nOptions=ro,loop\n",
		"etc/systemd/system/crio.service":       "[Unit]\nDefaultDependencies=no\n[Service]\nExecStart=/bin/sleep 1000\n",
		"etc/crio/crio.conf.d/50-pinbox-stores": string(crio.RenderStores(crio.Slots(), false)),
		"etc/pinbox/node.json":                  `{"version": 1, "keepPrevious": 1, "reserve": "0"}`,
		"disk/.keep":                            "",
	})
	out, code := fixtures.Script(t, dead, files, map[string]string{
		"/usr/local/bin/pinbox-node": fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox-node"),
		"/base":                      o.Out, "/disk": disk.Dir,
	})
	if code != 0 || !strings.Contains(out, "script completed") {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.Contains(line, " after ") && strings.HasSuffix(strings.TrimSpace(line), " s") {
			t.Log(strings.TrimSpace(line))
		}
	}
}

// hangOnRequest makes a disk hang once it has a file hang, which it answers by a file hangs, until it has a file end.
func hangOnRequest(ctx context.Context, disk *fixtures.FaultyDisk) {
	has := func(name string) bool {
		_, err := os.Stat(disk.Path(name))
		return err == nil
	}
	var end func()
	for changes := watch.Changes(ctx, disk.Dir, time.Hour); ; {
		select {
		case <-ctx.Done():
			return
		case <-changes:
		}
		if end == nil && has("hang") {
			end = disk.Hang()
			_ = os.WriteFile(disk.Path("hangs"), nil, 0o600) // or the script waits until the time is up
		}
		if end != nil && has("end") {
			end()
			return
		}
	}
}
