package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// moveOn gets a newer program from a medium, and rolls back. Attaches are killed, and so is an installation.
const moveOn = `set -ex
program=/usr/local/bin/pinbox-node
sum() { sha256sum <$1 | cut -d ' ' -f 1; }
running() { sum /proc/$(systemctl show --property MainPID --value pinbox-node.service)/exe; }
# shows awaits the first pass of the service, and looks for a line of the status.
shows() {
	sh /await test -e /run/pinbox/status.json
	$program status --wait 1s | tee /tmp/status | grep -q "pinbox-node $1" || { cat /tmp/status; exit 1; }
}
systemctl start var-lib-pinbox-stores-0.mount pinbox-node.service
[ $(running) = $old ]
for seconds in 0.05 0.2 0.4 0.8; do
	$program attach /delta --wait 1s --set reserve=0 &
	sleep $seconds
	kill -KILL $! || true
	wait $! || true
	systemctl restart pinbox-node.service
	case $(running) in $old|$new) ;; *) exit 1 ;; esac
done
systemctl stop pinbox-node.service
umount /var/lib/pinbox/stores/1 || true
rm -rf /var/lib/pinbox/stores.d /var/lib/pinbox/programs # each may have been killed before it made them
systemctl start pinbox-node.service
[ $(running) = $old ]
drive=$(losetup --find --show --read-only /delta.iso)
systemctl start pinbox-attach@${drive#/dev/}.service || true # CRI-O does not run
losetup --detach $drive
[ $(sum $program) = $old ] # a program that runs is not replaced
[ $(running) = $old ]
head -c 1000 $program >/usr/local/bin/pinbox-node.new # an installation was killed
systemctl start pinbox-mount.service
[ $(sum $program) = $new ]
[ $(running) = $old ]
shows "v1.20.3[+x]* runs"
shows "v1.20.4[+x]* is that of the current release: pinbox-node.service runs it from its next start on"
shows "v1.20.3[+x]* is that of the appliance's own store"
systemctl stop pinbox-node.service # else it might write its status once more
rm /run/pinbox/status.json
systemctl start pinbox-node.service
[ $(running) = $new ]
shows "v1.20.4[+x]* runs"
grep -A 3 '"running": {' /run/pinbox/status.json | grep $new
grep -A 3 '"current": {' /run/pinbox/status.json | grep $new
grep -A 3 '"own": {' /run/pinbox/status.json | grep $old
$program --version
[ -e /usr/local/bin/pinbox-node.new ] && exit 1
$program rollback --wait 1s && exit 1 # CRI-O does not run
[ -e /var/lib/pinbox/programs/$new ]
systemctl restart pinbox-node.service
[ $(running) = $old ]
[ $(sum $program) = $old ]
sed -i 's/"version": 1,/"version": 2,/' /var/lib/pinbox/stores.d/state.json* # as a later program writes it
$program rollback --wait 1s >/tmp/stores 2>&1 && exit 1
cat /tmp/stores
grep -q "/var/lib/pinbox/programs/$new attach" /tmp/stores
sed -i 's/"version": 2,/"version": 1,/' /var/lib/pinbox/stores.d/state.json*
/var/lib/pinbox/programs/$new attach /delta --wait 1s --set reserve=0 && exit 1 # CRI-O does not run
systemctl restart pinbox-node.service
[ $(running) = $new ]
echo script completed
`

// A medium brings a newer program: the next start of a unit installs it, and what runs goes on. Each start of the
// service put back the program of the appliance's own store. A rollback brings that one back.
func TestProgramMovesOn(t *testing.T) {
	t.Parallel()
	registry, _ := appliance.Registry(t)
	sums := map[string]digest.Digest{}
	release := func(number int64, version string, o builder.Options) builder.Options {
		t.Helper()
		o.Appliance.Metadata.Release = number
		o.NodeBinary = fixtures.ProgramOfVersion(t, o.NodeBinary, version)
		content, err := os.ReadFile(o.NodeBinary)
		if err != nil {
			t.Fatal(err)
		}
		sums[version] = digest.FromBytes(content)
		return o
	}
	o := release(1, "v1.20.3", appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000))))
	appliance.Build(t, o)
	d := release(2, "v1.20.4", appliance.Options(t, sample.SetNamed("s", push(t, registry, "app/a", 1000, 2000))))
	d.From = []string{o.Out}
	if _, err := builder.Delta(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	medium := filepath.Join(t.TempDir(), "delta.iso")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: d.Out, Out: medium}); err != nil {
		t.Fatal(err)
	}
	config := layout.NodeConfig{
		ReleaseID: o.Appliance.Metadata.ID(), KeepPrevious: 1,
		Program: pinset.Program{Digest: sums["v1.20.3"], Version: "v1.20.3"},
		Service: layout.Service{Wait: layout.Duration(time.Second), Reserve: &bytesize.Reserve{}},
	}
	files := map[string]string{
		"etc/systemd/system/var-lib-pinbox-stores-0.mount": "[Mount]\nWhat=/base/store.squashfs\n" +
			"Where=/var/lib/pinbox/stores/0\nType=squashfs\nOptions=ro,loop\n",
		"etc/crio/crio.conf.d/50-pinbox-stores": string(crio.RenderStores(crio.Slots(), false)),
		"etc/pinbox/sets.d/.keep":               "", "etc/pinbox/node.json": string(config.Render()),
	}
	maps.Copy(files, fixtures.Units(t, "installed", "pinbox-attach@.service", "pinbox-program.service", "pinbox-mount.service",
		"pinbox-node.service"))
	files["etc/systemd/system/pinbox-.service.d/test.conf"] = "[Unit]\nStartLimitIntervalSec=0\n"
	parts, err := provision.Node{Store: provision.Store{Program: config.Program}}.Parts()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range parts.Files {
		if f.Path == layout.BootPath || f.Path == layout.StoreEnvPath {
			files[strings.TrimPrefix(f.Path, "/")] = string(f.Content)
		}
	}
	script := fmt.Sprintf("old=%s\nnew=%s\n%s", sums["v1.20.3"].Encoded(), sums["v1.20.4"].Encoded(), moveOn)
	out, code := fixtures.Script(t, script, files, map[string]string{"/base": o.Out, "/delta": d.Out, "/delta.iso": medium})
	if code != 0 || !strings.Contains(out, "script completed") {
		t.Errorf("got exit code %d, want 0\n%s", code, out)
	}
}
