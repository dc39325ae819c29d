package runbook_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// content of each store here.
const content = "a store"

// forms are one of each way in.
func forms() map[string]runbook.Built {
	of := func(change func(*runbook.Built)) runbook.Built {
		b := runbook.Built{
			ReleaseID: pinset.ReleaseID{Name: "ship", Number: 7}, Images: 5, Store: "store.squashfs", Size: int64(len(content)),
			Sum: "28ae4afff86e50dd3ca8bf2a7ffb1ef9e1e0e29f8c39b9f4b5a9ecf2b1c4d3e0",
		}
		change(&b)
		return b
	}
	sets := []pinset.Set{{Name: "worker"}}
	update := []openshift.Release{{Version: "4.20.5", Signatures: [][]byte{{1}}, Image: pinset.Image{
		Repository: "quay.io/release", Digest: "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}}}
	return map[string]runbook.Built{
		"iso":    of(func(b *runbook.Built) { b.ISO, b.ISOSize, b.Kubeadm = true, 9<<30, "v1.36.3" }),
		"disk":   of(func(b *runbook.Built) { b.ISO, b.Installs = true, "/dev/sda" }),
		"medium": of(func(b *runbook.Built) { b.ISO, b.Node.VolumeLabel = true, "SHIP" }),
		"url":    of(func(b *runbook.Built) { b.Node.URL = "http://boot.lab/x/store.squashfs" }),
		"file":   of(func(b *runbook.Built) { b.Node.Path, b.Signed = "/var/lib/pinbox/store.squashfs", true }),
		"label":  of(func(b *runbook.Built) { b.Node.PartitionLabel = "pinbox-store" }),
		"folder": of(func(b *runbook.Built) { b.Node.Folder, b.Store, b.Sum = "/var/lib/pinbox/store", "store", "" }),
		"delta":  of(func(b *runbook.Built) { b.Delta, b.Store = true, "delta.squashfs" }),
		"thin":   of(func(b *runbook.Built) { b.Delta, b.Store, b.Made = true, "delta.thin", 1<<20 }),
		"kubeadm": of(func(b *runbook.Built) {
			b.Node.Path, b.Kubeadm, b.Size = layout.NodeStore, "v1.36.3", 2<<30
		}),
		"kubeadm-update": of(func(b *runbook.Built) { b.Delta, b.Store, b.Kubeadm = true, "delta.squashfs", "v1.37.0" }),
		"microshift": of(func(b *runbook.Built) {
			b.Node.Path, b.MicroShift, b.Size = layout.NodeStore, true, 2<<30
		}),
		"microshift-update": of(func(b *runbook.Built) { b.Delta, b.Store, b.MicroShift = true, "delta.squashfs", true }),
		"openshift": of(func(b *runbook.Built) {
			b.Node.Path, b.Sets = "/var/lib/pinbox/store.squashfs", sets
			b.OpenShift = &spec.OpenShift{Version: "4.20", Podman: true}
		}),
		"openshift-4.18": of(func(b *runbook.Built) {
			b.Node.PartitionLabel, b.Sets = "pinbox-store", sets
			b.OpenShift = &spec.OpenShift{Version: "4.18", Pools: []string{"worker"}}
		}),
		"openshift-iso": of(func(b *runbook.Built) { b.ISO, b.OpenShift = true, &spec.OpenShift{Version: "4.20"} }),
		"openshift-update": of(func(b *runbook.Built) {
			b.Delta, b.Store, b.Sets, b.Releases = true, "delta.squashfs", sets, update
			b.OpenShift = &spec.OpenShift{Version: "4.20", Pools: []string{"worker"}}
		}),
	}
}

func TestGolden(t *testing.T) {
	for name, b := range forms() {
		fixtures.Golden(t, "runbook-"+name+".txt", runbook.Markdown(b))
		fixtures.Golden(t, "runbook-"+name+".sh", runbook.Shell(b))
	}
}

// A time is never less than the bytes take at the rate that is named, and at most a third more, beyond a second.
func TestTimes(t *testing.T) {
	line := regexp.MustCompile(`- Bytes: .*about (\d+) (s|min|h) at 30 MB/s \(stick\)`)
	for _, size := range []int64{1, 30_000_000, 5_399_999_999, 5_400_000_000, 20 << 30, 1 << 40} {
		b := forms()["medium"]
		b.Size = size
		found := line.FindSubmatch(runbook.Markdown(b))
		if found == nil {
			t.Fatalf("%d bytes: got no time in\n%s", size, runbook.Markdown(b))
		}
		n, _ := strconv.Atoi(string(found[1]))
		got := float64(n * map[string]int{"s": 1, "min": 60, "h": 3600}[string(found[2])])
		if seconds := float64(size) / 30e6; got < seconds || got > seconds*4/3+1 {
			t.Errorf("%d bytes: got %s, want about %.0f s", size, found[0], seconds)
		}
	}
}

// Shells and a linter are the second judges of the scripts.
func TestScriptsAreForAShell(t *testing.T) {
	for name, b := range forms() {
		file := filepath.Join(t.TempDir(), name+".sh")
		if err := os.WriteFile(file, runbook.Shell(b), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, judge := range [][]string{{"sh", "-n"}, {"dash", "-n"}, {"shellcheck", "-S", "warning"}} {
			program, err := exec.LookPath(judge[0])
			if err != nil {
				t.Logf("%s is not there", judge[0])
				continue
			}
			if out, err := exec.Command(program, append(judge[1:], file)...).CombinedOutput(); err != nil {
				t.Errorf("%s: %s: got %v, want no error\n%s", name, judge[0], err, out)
			}
		}
	}
}

// By hand are the steps without the script, which is one more.
func TestStepsAreFew(t *testing.T) {
	for name, b := range forms() {
		hand, script := 0, 0
		for _, s := range runbook.Steps(b) {
			if s.Script {
				script = 1
			} else {
				hand++
			}
		}
		most := 7
		if b.Delta {
			most = 4
		}
		t.Logf("%s: %d steps, and pinbox build or delta", name, hand+script)
		if hand+script > most {
			t.Errorf("%s: got %d steps, want at most %d", name, hand+script, most)
		}
	}
}

// player is a cluster of two nodes in a folder: oc and ssh are scripts that keep what they were told in it. Each call
// counts; the one of the number DIES kills the script before it is done. Policies and MachineConfigs are seen late: the
// waits see them only when they are asked, and MachineConfigs are rendered while the script sleeps.
const player = `#!/bin/sh
n=$(($(cat calls 2>/dev/null || echo 0) + 1)); echo $n >calls
if [ "$n" = "${DIES:-}" ]; then kill -9 "$PPID"; exit 1; fi
say() { echo "$*" >>log; }
case "${0##*/}:$*" in
ssh:*"attach "*) : >"attached-$1"; say "attach $1" ;;
ssh:*status*) [ -e "attached-$1" ] ;;
ssh:*"head -c"*"grep -q"*) [ -e "store-$1" ] ;;
ssh:*"cat >"*|ssh:*"dd of"*) cat >"store-$1"; say "store $1" ;;
ssh:*"test -s"*) [ -e "store-$1" ] && [ -e rolled ] && : >"attached-$1" ;;
oc:"get nodes"*) printf 'node1\nnode2\n' ;;
oc:*"wait machineconfiguration"*) : >observed; say "policy observed" ;;
oc:*"apply"*policy*) : >policy; say policy ;;
oc:*apply*99-*-podman*|oc:*apply*manifests/podman*) say podman ;;
oc:*apply*99-*) [ ! -e policy ] || [ -e observed ] || say REBOOT; : >config; say configs ;;
oc:*wait*mcp*) [ -e rendered ] || say EARLY; : >rolled; say rolled ;;
oc:"get mc "*) [ -e config ] && { [ -e rendered ] && echo new || echo "late$n"; } ;;
oc:"get mcp"*) echo rendered ;;
oc:*apply*signatures*) say signatures ;;
oc:*apply*manifests/sets/*.yaml*) for n in node1 node2; do
	[ -e "attached-core@$n" ] || say PULL; done; say sets ;;
oc:"get clusterversion"*) cat upgrade 2>/dev/null || true ;;
oc:"adm upgrade"*) [ ! -e upgrade ] || say TWICE; for last; do :; done; printf %s "$last" >upgrade; say upgrade ;;
oc:"get machineconfiguration"*) echo 1 ;;
*) say "unknown: $0 $*"; exit 9 ;;
esac
`

// The script of a cluster is killed at each of its calls, and run again.
func TestKilledAtEachCall(t *testing.T) {
	harm := regexp.MustCompile(`REBOOT|PULL|EARLY|TWICE|unknown.*`)
	for name, last := range map[string]string{
		"openshift": "podman", "openshift-4.18": "rolled", "openshift-update": "upgrade",
	} {
		b := forms()[name]
		for dies, killed := 1, true; killed; dies++ {
			var log []string
			killed, log = play(t, b, dies)
			if wrong := harm.FindString(strings.Join(log, "\n")); wrong != "" {
				t.Fatalf("%s killed at call %d: got %s in %q", name, dies, wrong, log)
			}
			if !slices.Contains(log, last) {
				t.Fatalf("%s killed at call %d: got %q, want %s", name, dies, log, last)
			}
		}
	}
}

// play runs the script until it is killed at a call, or to its end, and then again.
func play(t *testing.T, b runbook.Built, dies int) (killed bool, log []string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("runbook.sh", string(runbook.Shell(b)))
	write("oc", player)
	write("ssh", player)
	write("sleep", "#!/bin/sh\n[ ! -e config ] || : >rendered\n") // the operator works meanwhile
	write(b.Store, content)
	run := func(more ...string) error {
		cmd := exec.Command("sh", "runbook.sh", "http://site/"+b.Store)
		cmd.Dir, cmd.Env = dir, append(append(os.Environ(), "SUM="+b.Sum, "PATH="+dir+":"+os.Getenv("PATH")), more...)
		out, err := cmd.CombinedOutput()
		if len(more) == 0 && err != nil {
			t.Fatalf("killed at call %d: run again: %v\n%s", dies, err, out)
		}
		return err
	}
	var ended *exec.ExitError
	killed = errors.As(run("DIES="+strconv.Itoa(dies)), &ended)
	_ = run() // also if it was done
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	return killed, strings.Split(strings.TrimSpace(string(text)), "\n")
}
