package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	real "github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/node"
	"github.com/pinbox/pinbox/storage/pinset"
)

// dieAt has the test program make one pass and die of SIGKILL at a step.
const dieAt = "PINBOX_TEST_DIE_AT"

func TestMain(m *testing.M) {
	if step, err := strconv.Atoi(os.Getenv(dieAt)); err == nil {
		os.Exit(mortal(step))
	}
	code := m.Run()
	fixtures.RemovePrograms()
	os.Exit(code)
}

// mortal makes the pass of `firstboot`, and dies before its step of this number:
// each call to the world outside is one.
func mortal(step int) int {
	var f passFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags, time.Minute)
	if err := flags.Parse(os.Args[2:]); err != nil {
		panic(err)
	}
	r, _, err := node.NewReconciler(f.Options)
	if err != nil {
		panic(err)
	}
	die := func() {
		if step--; step == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	publish := r.Publish
	r.Publish = func(s runtime.Status) error { die(); err := publish(s); die(); return err }
	r.Images = mortalImages{r.Images, die}
	r.Manifests = mortalManifests{r.Manifests, die}
	pins := r.Pins.(*real.Pins)
	reload := pins.Reload
	// the drop-in is written
	pins.Reload = func(ctx context.Context) error { die(); err := reload(ctx); die(); return err }
	r.Pins = mortalPins{r.Pins, die}
	if status, err := r.Pass(context.Background()); err != nil || !status.Healthy() {
		return 1
	}
	return 0
}

type mortalImages struct {
	runtime.Images
	die func()
}

func (m mortalImages) List(ctx context.Context) ([]pinset.StoredImage, error) {
	m.die()
	return m.Images.List(ctx)
}

func (m mortalImages) Pull(ctx context.Context, img pinset.Image) error {
	m.die()
	err := m.Images.Pull(ctx, img)
	m.die()
	return err
}

func (m mortalImages) Remove(ctx context.Context, img pinset.Image) error {
	m.die()
	err := m.Images.Remove(ctx, img)
	m.die()
	return err
}

type mortalManifests struct {
	runtime.Manifests
	die func()
}

func (m mortalManifests) Resolve(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	m.die()
	locked, err := m.Manifests.Resolve(ctx, img)
	m.die()
	return locked, err
}

type mortalPins struct {
	runtime.Pins
	die func()
}

func (m mortalPins) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	m.die()
	reloaded, err := m.Pins.Apply(ctx, images)
	m.die()
	return reloaded, err
}

// restore puts a node back to having these images, and pinning them.
func restore(t *testing.T, n *crio.Node, there []string) {
	t.Helper()
	n.WriteSet("s.yaml", sample.SetNamed("s", there...))
	healthy(t, n)
	_, all := pinnedByCRIO(t, n)
	for _, name := range all {
		if !slices.Contains(there, name) {
			if _, err := n.Images().RemoveImage(t.Context(),
				&criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// After a death at any step the next process ends what was begun: pins are as the
// set says, in the file and in CRI-O, and no file is left over.
func TestKilledAtEveryStep(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		before, after []int
		steps         int // at least
		args          []string
	}{
		"one for another":        {[]int{0}, []int{1}, 15, nil},
		"one for two with prune": {[]int{0}, []int{1, 2}, 20, []string{"--prune"}},
		"one less":               {[]int{0, 1}, []int{1}, 8, nil}, // nothing but the reload
	} {
		t.Run(name, func(t *testing.T) {
			n, registry, _ := boot(t)
			all := []string{
				pushed(t, registry, "app/0", 1000), pushed(t, registry, "app/1", 2000), pushed(t, registry, "app/2", 3000),
			}
			pick := func(indices []int) (pins []string) {
				for _, i := range indices {
					pins = append(pins, all[i])
				}
				return pins
			}
			before, after := pick(test.before), pick(test.after)
			for step := 1; ; step++ {
				restore(t, n, before)
				n.WriteSet("s.yaml", sample.SetNamed("s", after...))
				if !died(t, n, program, step, test.args...) {
					if step < test.steps {
						t.Errorf("a pass has %d steps only: the test misses some", step-1)
					}
					return
				}
				when := fmt.Sprintf("step %d", step)
				checkDropin(t, n, when, before, after)
				healthy(t, n, test.args...)
				checkDropin(t, n, when+", after another pass", after)
				wantPinned(t, n, after...)
				if _, left := pinnedByCRIO(t, n); test.args != nil && len(left) != len(after) {
					t.Errorf("%s: images that nobody wants are still there: %v", when, left)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The drop-in was written and not read by CRI-O, and the image that it unpinned is
// not on the node: nothing shows that there is something to do, but a record.
func TestLostReloadOfAnImageThatIsAway(t *testing.T) {
	n, registry, _ := boot(t)
	a, b := pushed(t, registry, "app/a", 1000), pushed(t, registry, "app/b", 2000)
	n.WriteSet("s.yaml", sample.SetNamed("s", a, b))
	healthy(t, n)
	if _, err := n.Images().RemoveImage(t.Context(),
		&criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: b}}); err != nil {
		t.Fatal(err)
	}
	n.WriteSet("s.yaml", sample.SetNamed("s", a))
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for step := 1; n.Dropin() != rendered(t, []string{a}); step++ { // until it is written
		if !died(t, n, program, step) {
			t.Fatal("the pass ended before")
		}
	}
	healthy(t, n)
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: b}}); err != nil {
		t.Fatal(err)
	}
	wantPinned(t, n, a)
}

// died runs a pass that is killed at a step; it has not if it has no such step.
func died(t *testing.T, n *crio.Node, program string, step int, args ...string) bool {
	t.Helper()
	line := n.Pinbox("firstboot", args...).Args
	line[slices.Index(line, "firstboot")-1] = program
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = append(os.Environ(), dieAt+"="+strconv.Itoa(step))
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("step %d: %v", step, err)
	}
	return err != nil
}

// checkDropin wants the drop-in to be one of those that these pins give, and no
// file beside it.
func checkDropin(t *testing.T, n *crio.Node, when string, pins ...[]string) {
	t.Helper()
	got := n.Dropin()
	if !slices.ContainsFunc(pins, func(p []string) bool { return got == rendered(t, p) }) {
		t.Errorf("%s: the drop-in is\n%s", when, got)
	}
	if strays := n.Strays(); len(strays) > 0 {
		t.Errorf("%s: files in crio.conf.d: %v", when, strays)
	}
}

func rendered(t *testing.T, pins []string) string {
	t.Helper()
	var set pinset.Set
	for _, pin := range pins {
		img, err := pinset.ParseImage(pin)
		if err != nil {
			t.Fatal(err)
		}
		set.Images = append(set.Images, img)
	}
	return string(real.RenderPinned(pinset.Union(set)))
}

func TestKilledAtRandomMoments(t *testing.T) {
	n, registry, _ := boot(t)
	sets := [2][]string{}
	shared := pushed(t, registry, "app/shared", 40_000)
	for i := range 3 {
		for side := range sets {
			sets[side] = append(sets[side], pushed(t, registry, fmt.Sprintf("app/%d-%d", side, i), 40_000, 1000+10*i+side))
		}
	}
	sets[0], sets[1] = append(sets[0], shared), append(sets[1], shared)
	n.WriteSet("s.yaml", sample.SetNamed("s", sets[0]...))
	start := time.Now()
	healthy(t, n)
	length := time.Since(start)
	finished := 0
	for i := range 100 {
		now := sets[(i+1)%2]
		n.WriteSet("s.yaml", sample.SetNamed("s", now...))
		cmd := n.Pinbox("firstboot", "--prune")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(rand.N(length))
		_ = cmd.Process.Kill() // or it has ended
		if cmd.Wait() == nil {
			finished++
		}
		checkDropin(t, n, fmt.Sprintf("kill %d", i), sets[0], sets[1])
		if i%5 == 0 {
			healthy(t, n, "--prune")
			wantPinned(t, n, now...)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d of 100 processes had finished within %v", finished, length)
	if finished > 90 {
		t.Error("most had finished before they were killed: this test shows little")
	}
	healthy(t, n, "--prune")
	wantPinned(t, n, sets[0]...)
	if _, all := pinnedByCRIO(t, n); len(all) != len(sets[0]) {
		t.Errorf("--prune left %v", all)
	}
	for _, dir := range []string{n.Etc(""), n.Path("lib")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 6 {
			t.Errorf("left over in %s: %v", dir, entries)
		}
	}
}
