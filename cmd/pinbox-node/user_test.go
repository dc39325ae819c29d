package main

import (
	"fmt"
	"os"
	"path/filepath"
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
	"github.com/pinbox/pinbox/storage/layout"
)

// Faults that users found, each with a real CRI-O.

// checkRun runs a command and checks its exit code, and that it prints each of these texts.
func checkRun(t *testing.T, n *crio.Node, code int, command string, texts ...string) {
	t.Helper()
	words := strings.Fields(command)
	result := n.Do(words[0], words[1:]...)
	for _, text := range texts {
		if !strings.Contains(result.Out+result.Err, text) {
			t.Errorf("%s: got\n%s%s\nwant %q", command, result.Out, result.Err, text)
		}
	}
	if result.Code != code {
		t.Errorf("%s: got exit code %d, want %d\n%s%s", command, result.Code, code, result.Out, result.Err)
	}
}

// A file that was cut off while it was copied, or has an error, is not an empty set: nothing is
// unpinned, and --prune removes nothing.
func TestFileWithoutASetUnpinsNothing(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
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
		t.Run(name, func(t *testing.T) {
			n.WriteSet("s.yaml", []byte(content))
			checkRun(t, n, 1, "firstboot --set prune=true", "s.yaml", "degraded")
			checkRun(t, n, 1, "status", "s.yaml")
			checkRun(t, n, 1, "plan", "s.yaml")
			if pinned, all := pinnedByCRIO(t, n); len(pinned) != 2 || len(all) != 2 {
				t.Fatalf("got the images %v with %v pinned, want 2 pinned", all, pinned)
			}
		})
	}
}

func TestPruneSparesImagesOfOthers(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("a.yaml", sample.SetNamed("a", a))
	n.WriteSet("b.yaml", sample.SetNamed("b", b))
	healthy(t, n)
	both := func(when string) {
		t.Helper()
		if _, all := pinnedByCRIO(t, n); len(all) != 2 {
			t.Fatalf("%s: got the images %v, want 2", when, all)
		}
	}
	n.WriteSet("b.yaml", []byte("kind: PinnedImageSet\n"))
	checkRun(t, n, 1, "firstboot --set prune=true", "b.yaml:1")
	both("a set cannot be read")
	n.RemoveSet("b.yaml")
	n.RemoveSet("a.yaml")
	checkRun(t, n, 1, "firstboot --set prune=true", "not ready: the node has no sets", "(NoSets)")
	both("there are no sets at all")
	wantPinned(t, n, a, b)
	n.WriteSet("a.yaml", sample.SetNamed("a", a))
	writeDropin(t, n, "99-admin", rendered(t, []string{a, b}))
	checkRun(t, n, 0, "firstboot --set prune=true")
	both("another drop-in pins it")
	if err := os.Remove(n.Etc("crio.conf.d/99-admin")); err != nil {
		t.Fatal(err)
	}
	n.Reload()
	eventually(t, "the image is removed", func() bool {
		healthy(t, n, "--set=prune=true")
		_, all := pinnedByCRIO(t, n)
		return slices.Equal(all, []string{a})
	})
}

// CRI-O finds an image that was pulled by a tag by its digest, but does not pin it, since it pins by
// names. The image is pulled under its pin, for which no layer is fetched.
func TestImageThatWasPulledByATag(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	img, err := sample.Stack(1000, 2000)
	if err != nil {
		t.Fatal(err)
	}
	pin := push(t, registry, "app/a", 1000, 2000)
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

// status shows what the last pass found, and whether a pass is running.
func TestStatusBetweenPasses(t *testing.T) {
	t.Parallel()
	n, registry, access := smallNode(t, 64<<20, 2000)
	a, bad := push(t, registry, "app/a", 6_000_000), push(t, registry, "app/bad", 30_000)
	checkRun(t, n, 1, "status", "not ready: the node has no sets", "(NoSets)")
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	checkRun(t, n, 1, "status", "waiting for a pass, since the sets have changed; 0 of 1 images are pinned", "(Pending)")
	checkRun(t, n, 1, "firstboot --set reserve=64Mi", "Pulling the images on node12 needs about ")
	n.WriteSet("s.yaml", sample.SetNamed("s", a)) // touched, not changed
	checkRun(t, n, 5, "plan --set reserve=64Mi", "64 MiB are kept in reserve", "free space")
	checkRun(t, n, 0, "firstboot")
	checkRun(t, n, 0, "plan", "nothing to do: all 1 images are on the node and pinned")
	checkRun(t, n, 0, "status", "all 1 images of 1 sets are pinned")
	// After a pass was killed within a pull, status shows no pull.
	n.WriteSet("s.yaml", sample.SetNamed("s", a, bad))
	access.Fault(times(1, stall))
	cmd := n.Pinbox("firstboot")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pull starts", func() bool { return currentStatus(n).Progress != nil })
	checkRun(t, n, 1, "status", "pulling: 0 of 1 images")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	result := n.Do("status")
	if strings.Contains(result.Out, "pulling") || result.Code != 1 {
		t.Errorf("after a kill: got %+v, want exit code 1 and no pull", result)
	}
	// A pass that is interrupted prints that.
	access.Fault(times(1, stall))
	began := time.Now()
	cmd = n.Pinbox("firstboot")
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "another pull starts", func() bool {
		s := currentStatus(n)
		return s.Progress != nil && s.Time.After(began)
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(errOut.String(), "pinbox-node: interrupted") {
		t.Errorf("interrupted: got exit code %d and\n%s\nwant 130", cmd.ProcessState.ExitCode(), errOut.String())
	}
	access.Fault(nil) // the signal may have come before the request
	checkRun(t, n, 0, "firstboot")
}

// status uses the pools of the last pass.
func TestStatusUsesThePoolsOfTheLastPass(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	n.WriteSet("a.yaml", sample.Set("worker", a))
	n.WriteSet("b.yaml", sample.Set("infra", b))
	checkRun(t, n, 0, "firstboot --set pools=worker")
	checkRun(t, n, 0, "status", "all 1 images of 1 sets")
	checkRun(t, n, 0, "firstboot --set pools=worker,infra")
	checkRun(t, n, 0, "status --output json", `"infra"`)
}

// A registry that cannot be reached does not delay pulls from others.
func TestDeadRegistryDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	dead, _ := appliance.Registry(t)
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	n, registry, _ := boot(t)
	good := push(t, registry, "app/a", 1000)
	pins := []string{good}
	for i := range 40 {
		pins = append(pins, fmt.Sprintf("%s/app/a@sha256:%064d", dead.Host, i)) // of its own: manifests are kept by digest
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", pins...))
	result := n.Do("firstboot")
	// The lookups have found that nobody answers, so that CRI-O is asked once for each image, and not five times.
	if got := strings.Count(result.Err, "class=network"); got != 40 || result.Code != 1 ||
		!strings.Contains(result.Err, "connection refused") {
		t.Errorf("got exit code %d after %d failed pulls, want 1 after 40\n%s", result.Code, got, result.Err)
	}
	wantPinned(t, n, good)
}

// Folders that do not exist are not made.
func TestMissingFolders(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	n.WriteSet("s.yaml", sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	nowhere := n.Path("no/such")
	checkRun(t, n, 1, "firstboot --set crioDir="+nowhere, nowhere)
	if _, err := os.Stat(nowhere); err == nil {
		t.Errorf("got %s made, want an error only", nowhere)
	}
	checkRun(t, n, 1, "firstboot --set setsDir="+nowhere, "folder of sets "+nowhere+": no such file or directory")
	checkRun(t, n, 1, "status --set setsDir="+nowhere, "folder of sets "+nowhere)
	checkRun(t, n, 0, "firstboot --set stateDir=/proc/no/folder") // it is only a cache
	if s := readStatus(n); s.Images[0].State != runtime.Pinned {
		t.Errorf("got %+v, want the image pinned", s.Images)
	}
}

// A node of an earlier version has flags in node.env, which its units pass: they have no effect and fail nothing, so
// that CRI-O gets its stores, and the status says what to do.
func TestFlagsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	n.WriteSet("s.yaml", sample.SetNamed("s", push(t, registry, "app/a", 1000)))
	env := filepath.Join(n.Root, "etc/pinbox/node.env")
	if err := os.WriteFile(env, []byte("PINBOX_NODE_FLAGS=\"--pool worker --reserve 900Ti\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	checkRun(t, n, 2, "mount --pool worker --reserve 900Ti", "unknown flag: --pool")
	n.Env = append(n.Env, "PINBOX_NODE_FLAGS=--pool worker --reserve 900Ti")
	checkRun(t, n, 0, "mount --pool worker --reserve 900Ti --wait 5s")
	checkRun(t, n, 0, "firstboot --pool worker --reserve 900Ti",
		"warning: PINBOX_NODE_FLAGS in /etc/pinbox/node.env has no effect any more", "/etc/pinbox/node.json")
	if err := os.Remove(env); err != nil {
		t.Fatal(err)
	}
	if s := healthy(t, n); strings.Contains(strings.Join(s.Warnings, "\n"), "PINBOX_NODE_FLAGS") {
		t.Errorf("got the warnings %q, want none of the flags", s.Warnings)
	}
}

// The settings of the file count from the next pass on.
func TestSettingsOfTheFile(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
	for pool, pin := range map[string]string{"worker": a, "infra": b} {
		n.WriteSet(pool+".yaml", sample.Set(pool, pin))
	}
	config := filepath.Join(n.Root, layout.NodeConfigPath)
	write := func(settings string) {
		t.Helper()
		if err := os.WriteFile(config, []byte(`{"version": 1, "keepPrevious": 1, `+settings+"}"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(`"pools": ["worker"]`)
	healthy(t, n)
	wantPinned(t, n, a)
	checkRun(t, n, 5, "plan --set reserve=900Ti --set pools=infra", "are kept in reserve")
	write(`"pools": ["worker", "infra"]`)
	healthy(t, n)
	wantPinned(t, n, a, b)
	write(`"pols": ["worker"]`) // a setting that nobody knows: nothing is unpinned
	checkRun(t, n, 1, "firstboot", config, "pols")
	wantPinned(t, n, a, b)
}
