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
	"strings"
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
	"github.com/pinbox/pinbox/storage/pinset"
)

// killAtStep makes the test program make one pass and send itself SIGKILL at a step.
const killAtStep = "PINBOX_TEST_KILL_AT_STEP"

func TestMain(m *testing.M) {
	if step, err := strconv.Atoi(os.Getenv(killAtStep)); err == nil {
		os.Exit(passKilledAt(step))
	}
	if path := os.Getenv(countGoroutines); path != "" {
		go writeGoroutines(path)
		main()
	}
	if file := os.Getenv(measureChild); file != "" {
		os.Exit(runMeasured(file, os.Args[1:]))
	}
	fixtures.Waiting(6) // for CRI-O, systemd or a retry
	m.Run()
}

// passKilledAt makes the pass of `firstboot`, and kills the process before the step of this number.
// Each call to CRI-O, a registry or the file system has a step before and after it.
func passKilledAt(number int) int {
	var f nodeFlags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.add(flags, time.Minute)
	if err := flags.Parse(os.Args[2:]); err != nil {
		panic(err)
	}
	r, _, err := f.open().Reconciler()
	if err != nil {
		panic(err)
	}
	step := func() {
		if number--; number == 0 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}
	r.Node = nodeInSteps{r.Node, step}
	r.Images = imagesInSteps{r.Images, step}
	pins := r.Pins.(*real.Pins)
	reload := pins.Reload
	pins.Reload = func(ctx context.Context) error { step(); err := reload(ctx); step(); return err }
	r.Pins = pinsInSteps{r.Pins, step}
	if status, err := r.Pass(context.Background()); err != nil || !status.Healthy() {
		return 1
	}
	return 0
}

type nodeInSteps struct {
	runtime.Node
	step func()
}

func (n nodeInSteps) Configure(ctx context.Context) (runtime.Configuration, error) {
	conf, err := n.Node.Configure(ctx)
	conf.Manifests = manifestsInSteps{conf.Manifests, n.step}
	return conf, err
}

func (n nodeInSteps) Publish(s runtime.Status) error {
	n.step()
	err := n.Node.Publish(s)
	n.step()
	return err
}

type imagesInSteps struct {
	runtime.Images
	step func()
}

func (m imagesInSteps) List(ctx context.Context) ([]pinset.StoredImage, error) {
	m.step()
	return m.Images.List(ctx)
}

func (m imagesInSteps) Pull(ctx context.Context, img pinset.Image) error {
	m.step()
	err := m.Images.Pull(ctx, img)
	m.step()
	return err
}

func (m imagesInSteps) Remove(ctx context.Context, img pinset.Image) error {
	m.step()
	err := m.Images.Remove(ctx, img)
	m.step()
	return err
}

type manifestsInSteps struct {
	runtime.Manifests
	step func()
}

func (m manifestsInSteps) Resolve(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	m.step()
	locked, err := m.Manifests.Resolve(ctx, img)
	m.step()
	return locked, err
}

type pinsInSteps struct {
	runtime.Pins
	step func()
}

func (m pinsInSteps) Apply(ctx context.Context, images []pinset.Image) (bool, error) {
	m.step()
	reloaded, err := m.Pins.Apply(ctx, images)
	m.step()
	return reloaded, err
}

// restore makes the node have and pin exactly these images.
func restore(t *testing.T, n *crio.Node, want []string) {
	t.Helper()
	n.WriteSet("s.yaml", sample.SetNamed("s", want...))
	healthy(t, n)
	_, all := pinnedByCRIO(t, n)
	for _, name := range all {
		if !slices.Contains(want, name) {
			if _, err := n.Images().RemoveImage(t.Context(),
				&criapi.RemoveImageRequest{Image: &criapi.ImageSpec{Image: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// After a kill at any step, the next process completes the work: the drop-in and CRI-O have the pins of
// the set, and no file is left over.
func TestKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// In CI every fourth step: a sweep takes half a minute of a processor.
	first, stride := 1, 1
	if fixtures.Soak(t, 1) == 1 {
		first, stride = 1+rand.N(4), 4
	}
	t.Logf("from step %d, each step of %d", first, stride)
	for name, test := range map[string]struct {
		before, after []int
		steps         int // at least
		args          []string
	}{
		"one for another":        {[]int{0}, []int{1}, 15, nil},
		"one for two with prune": {[]int{0}, []int{1, 2}, 20, []string{"--set=prune=true"}},
		"one less":               {[]int{0, 1}, []int{1}, 8, nil}, // nothing but the reload
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n, registry, _ := boot(t)
			all := []string{
				push(t, registry, "app/0", 1000), push(t, registry, "app/1", 2000), push(t, registry, "app/2", 3000),
			}
			pick := func(indices []int) (pins []string) {
				for _, i := range indices {
					pins = append(pins, all[i])
				}
				return pins
			}
			before, after := pick(test.before), pick(test.after)
			for step := first; ; step += stride {
				restore(t, n, before)
				n.WriteSet("s.yaml", sample.SetNamed("s", after...))
				if !killed(t, n, program, step, test.args...) {
					if step < test.steps { // of all steps, also with a stride
						t.Errorf("got a pass of %d steps, want at least %d", step-1, test.steps-1)
					}
					return
				}
				when := fmt.Sprintf("step %d", step)
				checkDropin(t, n, when, before, after)
				healthy(t, n, test.args...)
				checkDropin(t, n, when+", after another pass", after)
				wantPinned(t, n, after...)
				if _, left := pinnedByCRIO(t, n); test.args != nil && len(left) != len(after) {
					t.Errorf("%s: got the images %v, want %v", when, left, after)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// The drop-in was written but not read by CRI-O, and the image that it unpins is not on the node: only
// the record of the reload shows that one is due.
func TestLostReloadOfAMissingImage(t *testing.T) {
	t.Parallel()
	n, registry, _ := boot(t)
	a, b := push(t, registry, "app/a", 1000), push(t, registry, "app/b", 2000)
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
		if !killed(t, n, program, step) {
			t.Fatal("got the end of the pass, want the drop-in written before")
		}
	}
	healthy(t, n)
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: b}}); err != nil {
		t.Fatal(err)
	}
	wantPinned(t, n, a)
}

// killed runs a pass that is killed at a step. It returns false if the pass has no such step.
func killed(t *testing.T, n *crio.Node, program string, step int, args ...string) bool {
	t.Helper()
	cmd := withProgram(n.Pinbox("firstboot", args...), program)
	cmd.Env = append(cmd.Environ(), killAtStep+"="+strconv.Itoa(step))
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL) {
		t.Fatalf("step %d: got %v, want SIGKILL or success", step, err)
	}
	return err != nil
}

// withProgram returns a command on a node with another program in place of pinbox-node.
func withProgram(cmd *exec.Cmd, program string) *exec.Cmd {
	line := slices.Clone(cmd.Args)
	line[slices.IndexFunc(line, func(arg string) bool { return strings.HasSuffix(arg, "/pinbox-node") })] = program
	changed := exec.Command(line[0], line[1:]...)
	changed.Env = cmd.Env
	return changed
}

// checkDropin checks that the drop-in has one of these lists of pins, and that there is no other file.
func checkDropin(t *testing.T, n *crio.Node, when string, pins ...[]string) {
	t.Helper()
	got := n.Dropin()
	if !slices.ContainsFunc(pins, func(p []string) bool { return got == rendered(t, p) }) {
		t.Errorf("%s: got the drop-in\n%s\nwant one of %v", when, got, pins)
	}
	if strays := n.Strays(); len(strays) > 0 {
		t.Errorf("%s: got the files %v in crio.conf.d, want none", when, strays)
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
	t.Parallel()
	n, registry, _ := boot(t)
	sets := [2][]string{}
	shared := push(t, registry, "app/shared", 40_000)
	for i := range 3 {
		for side := range sets {
			sets[side] = append(sets[side], push(t, registry, fmt.Sprintf("app/%d-%d", side, i), 40_000, 1000+10*i+side))
		}
	}
	sets[0], sets[1] = append(sets[0], shared), append(sets[1], shared)
	n.WriteSet("s.yaml", sample.SetNamed("s", sets[0]...))
	healthy(t, n)
	var now []string
	k, kills := fixtures.NewKiller(t), fixtures.Soak(t, 12)
	for i := 1; k.Kills() < kills; i++ {
		now = sets[i%2]
		n.WriteSet("s.yaml", sample.SetNamed("s", now...))
		k.Kill("pass", n.Pinbox("firstboot", "--set=prune=true"))
		checkDropin(t, n, fmt.Sprintf("kill %d", k.Kills()), sets[0], sets[1])
		if i%5 == 0 {
			healthy(t, n, "--set=prune=true")
			wantPinned(t, n, now...)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("killed: %v, ended: %d", k.Killed, k.Ended)
	fixtures.Until(t, func() error { // CRI-O may still pull what a killed process has asked for
		healthy(t, n, "--set=prune=true")
		if _, all := pinnedByCRIO(t, n); len(all) != len(now) {
			return fmt.Errorf("after --prune: got the images %v, want %v", all, now)
		}
		return nil
	})
	wantPinned(t, n, now...)
	for _, dir := range []string{n.Etc(""), n.Path("lib")} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 6 {
			t.Errorf("%s: got %v, want at most 6 files", dir, entries)
		}
	}
}
