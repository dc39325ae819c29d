package main

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
)

// What users of the first days ran into, each with a real CRI-O.

// says runs a command that must end with this code and show each of these.
func says(t *testing.T, n *crio.Node, code int, command string, texts ...string) {
	t.Helper()
	words := strings.Fields(command)
	said := n.Do(words[0], words[1:]...)
	for _, text := range texts {
		if !strings.Contains(said.Out+said.Err, text) {
			t.Errorf("%s does not say %q:\n%s%s", command, text, said.Out, said.Err)
		}
	}
	if said.Code != code {
		t.Errorf("%s: exit code %d, want %d\n%s%s", command, said.Code, code, said.Out, said.Err)
	}
}

// A file that was cut off while it was copied, or has a slip in it, is no empty
// set: nothing is unpinned, and --prune removes nothing.
func TestFileWithoutASetUnpinsNothing(t *testing.T) {
	n, registry, _ := boot(t)
	a, b := pushed(t, registry, "app/a", 1000), pushed(t, registry, "app/b", 2000)
	whole := string(sample.SetNamed("s", a, b))
	n.WriteSet("s.yaml", []byte(whole))
	healthy(t, n)
	for name, content := range map[string]string{
		"empty":          "",
		"a comment":      "# later\n",
		"cut in a word":  whole[:30],
		"cut in a name":  whole[:len(whole)-10],
		"no kind":        strings.Replace(whole, "kind: PinnedImageSet\n", "", 1),
		"misspelt kind":  strings.Replace(whole, "PinnedImageSet", "PinnedImageset", 1),
		"another's kind": "apiVersion: v1\nkind: ConfigMap\n",
	} {
		n.WriteSet("s.yaml", []byte(content))
		says(t, n, 1, "firstboot --prune", "s.yaml", "degraded")
		says(t, n, 1, "status", "s.yaml")
		says(t, n, 1, "plan", "s.yaml")
		if pinned, all := pinnedByCRIO(t, n); len(pinned) != 2 || len(all) != 2 {
			t.Fatalf("%s: of %v are pinned %v", name, all, pinned)
		}
	}
}

func TestPruneLeavesAloneWhatOthersWant(t *testing.T) {
	n, registry, _ := boot(t)
	a, b := pushed(t, registry, "app/a", 1000), pushed(t, registry, "app/b", 2000)
	n.WriteSet("a.yaml", sample.SetNamed("a", a))
	n.WriteSet("b.yaml", sample.SetNamed("b", b))
	healthy(t, n)
	both := func(when string) {
		t.Helper()
		if _, all := pinnedByCRIO(t, n); len(all) != 2 {
			t.Fatalf("%s: %v", when, all)
		}
	}
	n.WriteSet("b.yaml", []byte("kind: PinnedImageSet\n"))
	says(t, n, 1, "firstboot --prune", "b.yaml:1")
	both("a set cannot be read")
	n.RemoveSet("b.yaml")
	n.RemoveSet("a.yaml")
	says(t, n, 0, "firstboot --prune", "no sets, so nothing is pinned", "2 images on the node are not in a set any more")
	both("there are no sets at all")
	n.WriteSet("a.yaml", sample.SetNamed("a", a))
	dropin(t, n, "99-admin", rendered(t, []string{a, b}))
	says(t, n, 0, "firstboot --prune")
	both("another drop-in pins it")
	if err := os.Remove(n.Etc("crio.conf.d/99-admin")); err != nil {
		t.Fatal(err)
	}
	n.Reload()
	eventually(t, "nobody wants it any more", func() bool {
		healthy(t, n, "--prune")
		_, all := pinnedByCRIO(t, n)
		return slices.Equal(all, []string{a})
	})
}

// CRI-O finds an image by its digest that somebody pulled by a tag, and does not
// pin it, since it goes by names. It is pulled under its pin, which costs no blob
// of a layer.
func TestImageThatWasPulledByATag(t *testing.T) {
	n, registry, _ := boot(t)
	img, err := sample.Stack(1000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	pin := pushed(t, registry, "app/a", 1000, 2000)
	tag, err := registry.Tag(t.Context(), "app/a", "v1", img)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: tag}}); err != nil {
		t.Fatal(err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", pin))
	healthy(t, n)
	wantPinned(t, n, pin)
}

// status knows what the last pass found out, and whether somebody is at work.
func TestStatusBetweenPasses(t *testing.T) {
	n, registry, access := small(t, 64<<20, 2000)
	a, bad := pushed(t, registry, "app/a", 6_000_000), pushed(t, registry, "app/bad", 30_000)
	says(t, n, 0, "status", "no sets, so nothing is pinned")
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	says(t, n, 1, "status", "waiting for a pass, since the sets have changed; 0 of 1 images are pinned", "(Pending)")
	says(t, n, 1, "firstboot --reserve 64Mi", "Pulling the images on node12 needs about ")
	n.WriteSet("s.yaml", sample.SetNamed("s", a)) // touched, not changed
	says(t, n, 5, "plan --reserve 64Mi", "64 MiB are kept in reserve", "free space")
	says(t, n, 0, "firstboot")
	says(t, n, 0, "plan", "nothing to do: all 1 images are on the node and pinned")
	says(t, n, 0, "status", "all 1 images of 1 sets are pinned")
	// A pass that is killed within a pull is at work no longer.
	n.WriteSet("s.yaml", sample.SetNamed("s", a, bad))
	access.Fault(times(1, stall))
	cmd := n.Pinbox("firstboot")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it pulls", func() bool { return statusNow(n).Progress != nil })
	says(t, n, 1, "status", "pulling: 0 of 1 images")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	said := n.Do("status")
	if strings.Contains(said.Out, "pulling") || said.Code != 1 {
		t.Errorf("after a kill: %+v", said)
	}
	// An interrupted one says so.
	access.Fault(times(1, stall))
	began := time.Now()
	cmd = n.Pinbox("firstboot")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it pulls again", func() bool { s := statusNow(n); return s.Progress != nil && s.Time.After(began) })
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errOut.String(), "pinbox-node: interrupted") {
		t.Errorf("interrupted: exit code %d\n%s", cmd.ProcessState.ExitCode(), errOut.String())
	}
	access.Fault(nil) // the signal may have come before the request
	says(t, n, 0, "firstboot")
}

// The pools of the last pass are those of `status`.
func TestStatusGoesByThePoolsOfTheLastPass(t *testing.T) {
	n, registry, _ := boot(t)
	a, b := pushed(t, registry, "app/a", 1000), pushed(t, registry, "app/b", 2000)
	n.WriteSet("a.yaml", sample.Set("worker", a))
	n.WriteSet("b.yaml", sample.Set("infra", b))
	says(t, n, 0, "firstboot --pool worker")
	says(t, n, 0, "status", "all 1 images of 1 sets")
	says(t, n, 0, "firstboot --pool worker,infra")
	says(t, n, 0, "status --output json", `"infra"`)
}

// With a registry that is away for good, what can be had is had soon.
func TestDeadRegistryDoesNotHoldUpOthers(t *testing.T) {
	dead, _ := appliance.Registry(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	n, registry, _ := boot(t)
	good := pushed(t, registry, "app/a", 1000)
	pins := []string{good}
	for i := range 40 {
		pins = append(pins, strings.Replace(good, registry.Host+"/app/a", dead.Host+"/app/"+strings.Repeat("x", i+1), 1))
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", pins...))
	start := time.Now()
	says(t, n, 1, "firstboot --retry 500ms", "network", "connection refused")
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	wantPinned(t, n, good)
}

// A path that is not CRI-O's is not made into one.
func TestFoldersThatAreNotThere(t *testing.T) {
	n, registry, _ := boot(t)
	n.WriteSet("s.yaml", sample.SetNamed("s", pushed(t, registry, "app/a", 1000)))
	nowhere := n.Path("no/such")
	says(t, n, 1, "firstboot --crio-config "+nowhere, nowhere)
	if _, err := os.Stat(nowhere); err == nil {
		t.Error("it was made")
	}
	says(t, n, 1, "firstboot --sets "+nowhere, "folder of sets "+nowhere+": no such file or directory")
	says(t, n, 1, "status --sets "+nowhere, "folder of sets "+nowhere)
	says(t, n, 0, "firstboot --state /proc/no/folder") // it is for a cache
	if s := published(n); s.Images[0].State != runtime.Pinned {
		t.Errorf("%+v", s.Images)
	}
}
