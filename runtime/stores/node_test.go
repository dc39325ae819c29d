package stores_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Tests with a testSystem run in parallel. Those of a Manager in this process cannot: programs that others start
// meanwhile would inherit its lock.

// testSystem is a node with a real CRI-O and the first release of a series, and the deltas to the
// others.
type testSystem struct {
	*crio.Node
	t *testing.T
	// pins of each release, and the folders of their stores.
	pins   [][]string
	stores []string
}

// newSystem boots a node with the first release of a series, without a registry. Its stores are shared by all tests: a
// test changes copies. The deltas bring no programs.
func newSystem(t *testing.T, releases int) *testSystem {
	t.Helper()
	all := sharedSeries(t)
	s := &testSystem{Node: appliance.Node(t, all.base), t: t, pins: all.pins[:releases], stores: all.stores[:releases]}
	s.Start()
	return s
}

// series is what a registry had, and the stores that were built of it.
type series struct {
	pins   [][]string
	base   builder.Options // of the first store
	stores []string
	// apart is a delta of the third release on the first one alone, as that of the second is; in the shared series only.
	apart string
}

var makeSeries, sharedOnes = sync.Once{}, series{}

// sharedSeries builds as many releases as a node has slots, and one more. Then their registry is gone.
func sharedSeries(t *testing.T) series {
	t.Helper()
	testProgram(t)
	makeSeries.Do(func() {
		var registry *sample.Registry
		var made series
		if made, registry, _ = newSeries(fixtures.Lasting{TB: t}, (*sample.Registry).PushSeries, 9); !t.Failed() {
			made.buildDeltas(fixtures.Lasting{TB: t}, 8)
			o := releaseOptions(fixtures.Lasting{TB: t}, made.pins[2])
			o.From = []string{made.stores[0]}
			if _, err := builder.Delta(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			made.apart = o.Out
		}
		if err := registry.Close(); err != nil {
			t.Fatal(err)
		}
		sharedOnes = made
	})
	if sharedOnes.stores == nil {
		t.Fatal("the releases could not be built: see the first test that failed")
	}
	return sharedOnes
}

// newOnlineSystem builds the releases of a series, and boots a node with the first one. The registry runs, and its
// requests are recorded. The deltas bring programs of these versions, in their order; without, they bring none.
func newOnlineSystem(t *testing.T, releases int, versions ...string) (*testSystem, *sample.Registry, *fixtures.Access) {
	t.Helper()
	made, registry, access := newSeries(t, (*sample.Registry).PushSeries, releases)
	made.buildDeltas(t, releases-1, versions...)
	s := &testSystem{Node: appliance.Node(t, made.base), t: t, pins: made.pins, stores: made.stores}
	s.Start()
	access.Take()
	return s, registry, access
}

// newOwnSystem is newSystem with stores that a test may change, and programs in the deltas.
func newOwnSystem(t *testing.T, releases int, versions ...string) *testSystem {
	t.Helper()
	s, registry, _ := newOnlineSystem(t, releases, versions...)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// newSeries builds the store of the first of the releases that push puts into a registry.
func newSeries(
	t testing.TB, push func(*sample.Registry, context.Context, []byte, int) ([][]string, error), releases int,
) (made series, registry *sample.Registry, access *fixtures.Access) {
	t.Helper()
	program := testProgram(t)
	registry, access = appliance.Registry(t)
	var err error
	if made.pins, err = push(registry, t.Context(), program, releases); err != nil {
		t.Fatal(err)
	}
	made.base = appliance.Bootable(t, releaseOptions(t, made.pins[0]), made.pins[0][0])
	made.stores = []string{made.base.Out}
	return made, registry, access
}

// releaseOptions are the options of a build of a release. Its pinbox-node is a small program: nodes keep it and name it
// for their units, and no test runs it.
func releaseOptions(t testing.TB, pins []string) builder.Options {
	t.Helper()
	o := appliance.Options(t, sample.SetNamed("worker", pins...))
	o.NodeBinary = fixtures.Program(t, imageProgram)
	return o
}

// buildDeltas builds n deltas, each with the release before it as base.
func (s *series) buildDeltas(t testing.TB, n int, versions ...string) {
	t.Helper()
	for n := range n {
		o := releaseOptions(t, s.pins[n+1])
		o.From = []string{s.stores[n]}
		if len(versions) > 0 {
			o.NodeBinary = fixtures.ProgramOfVersion(t, o.NodeBinary, versions[n])
		}
		if _, err := builder.Delta(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		s.stores = append(s.stores, o.Out)
	}
}

// imageProgram is the package of the program in the images.
const imageProgram = "github.com/pinbox/pinbox/fixtures/program"

// testProgram is the program in the images.
func testProgram(t testing.TB) []byte {
	t.Helper()
	fixtures.NeedRoot(t)
	fixtures.Peer(t, "crio") // before anything is built
	program, err := os.ReadFile(fixtures.Program(t, imageProgram))
	if err != nil {
		t.Fatal(err)
	}
	return program
}

// mustRun runs a command of pinbox-node that must succeed.
func (s *testSystem) mustRun(command string, args ...string) crio.Result {
	s.t.Helper()
	result := s.Do(command, args...)
	if result.Code != 0 {
		s.t.Fatalf("%s %v: got exit code %d, want 0\n%s%s", command, args, result.Code, result.Out, result.Err)
	}
	return result
}

// wantExit runs a command that must fail with an exit code and a text in its output.
func (s *testSystem) wantExit(code int, text, command string, args ...string) {
	s.t.Helper()
	result := s.Do(command, args...)
	if result.Code != code || !strings.Contains(result.Out+result.Err, text) {
		s.t.Errorf("%s %v: got exit code %d, want %d and %q\n%s%s", command, args, result.Code, code, text,
			result.Out, result.Err)
	}
}

// wantPinned checks that CRI-O has and pins the images of a release, and pins no others but those of mounted
// stores, which the kubelet cannot remove.
func (s *testSystem) wantPinned(release int) {
	s.t.Helper()
	list, err := s.Images().ListImages(s.t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		s.t.Fatal(err)
	}
	want := map[string]bool{}
	for _, pin := range s.pins[release] {
		want[pin] = true
	}
	found := map[string]bool{}
	stored := s.storeRecords()
	for _, img := range list.Images {
		wanted := slices.ContainsFunc(img.RepoDigests, func(name string) bool {
			return want[name] || strings.Contains(stored, name)
		})
		if wanted != img.Pinned {
			s.t.Errorf("release %d: %v: got pinned %v, want %v", release, img.RepoDigests, img.Pinned, wanted)
		}
		for _, name := range img.RepoDigests {
			found[name] = true
		}
	}
	for name := range want {
		if !found[name] {
			s.t.Errorf("release %d: got no image %s, want it listed", release, name)
		}
	}
}

// storeRecords are the records of the images of all mounted stores.
func (s *testSystem) storeRecords() string {
	s.t.Helper()
	dropin, err := os.ReadFile(s.Etc("crio.conf.d/50-pinbox-stores"))
	if err != nil {
		s.t.Fatal(err)
	}
	var files []string
	for _, m := range regexp.MustCompile(`imagestore=([^"]+)`).FindAllStringSubmatch(string(dropin), -1) {
		files = append(files, filepath.Join(m[1], "overlay-images/images.json"))
	}
	content, _ := s.Try("cat", files...) // it fails for the slots where nothing is mounted
	return string(content)
}

// wantDropin checks that the drop-in has exactly these pins, as the Machine Config Operator would write them.
func (s *testSystem) wantDropin(pins []string) {
	s.t.Helper()
	pins = slices.Compact(slices.Sorted(slices.Values(pins)))
	want := "[crio]\n  [crio.image]\n    pinned_images = [\"" + strings.Join(pins, `", "`) + "\"]\n"
	if got := s.Dropin(); got != want {
		s.t.Errorf("got the drop-in\n%s\nwant\n%s", got, want)
	}
}

// checkContainers starts a container of each image of a release, and checks the files in it that
// this release and earlier ones added, replaced, deleted and recreated.
func (s *testSystem) checkContainers(release int) {
	s.t.Helper()
	s.checkImages(release, "app", "tool", "index")
}

// checkContainer is checkContainers for one image: enough where the question is whether CRI-O reads a store, and not
// what is in it.
func (s *testSystem) checkContainer(release int) {
	s.t.Helper()
	s.checkImages(release, "app")
}

func (s *testSystem) checkImages(release int, names ...string) {
	s.t.Helper()
	for i, name := range names {
		id, log := s.RunContainer(s.pins[release][i+1], "show", "/release", "/data/tree", "/new", "/base")
		if code := s.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
			s.t.Errorf("%s of release %d: got exit code %d, want 0", name, release, code)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			s.t.Fatal(err)
		}
		var base []string
		for n := range 50 {
			if n == 0 || n > release+1 {
				base = append(base, strconv.Itoa(n))
			}
		}
		slices.Sort(base)
		content := fmt.Sprintf("%s-r%d", name, release+1)
		for _, want := range []string{
			fmt.Sprintf("/release: %s r%d\n", name, release+1), "/data/tree: " + content + "\n", "/new: " + content + "\n",
			"/base: " + strings.Join(base, " ") + "\n",
		} {
			if !strings.Contains(string(text), want) {
				s.t.Errorf("%s of release %d: got the files\n%s\nwant %q", name, release, text, want)
			}
		}
		s.removeContainer(id)
	}
}

// startContainer starts a container that runs until it is stopped.
func (s *testSystem) startContainer(pin string) (id string) {
	s.t.Helper()
	id, _ = s.RunContainer(pin, "wait")
	s.State(id, criapi.ContainerState_CONTAINER_RUNNING)
	return id
}

// stopContainer stops a container and removes it.
func (s *testSystem) stopContainer(id string) {
	s.t.Helper()
	if _, err := s.Runtime().StopContainer(s.t.Context(), &criapi.StopContainerRequest{ContainerId: id}); err != nil {
		s.t.Fatal(err)
	}
	s.removeContainer(id)
}

// removeContainer removes a container that has ended.
func (s *testSystem) removeContainer(id string) {
	s.t.Helper()
	if _, err := s.Runtime().RemoveContainer(s.t.Context(), &criapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		s.t.Fatal(err)
	}
}

// lock of a release.
func (s *testSystem) lock(release int) pinset.Lock { return appliance.Lock(s.t, s.stores[release]) }

// pinboxFiles lists the files in pinbox's folders, except locks.
func (s *testSystem) pinboxFiles() (files []string) {
	s.t.Helper()
	for _, dir := range []string{"var/lib/pinbox/stores.d", "etc/pinbox/sets.d"} {
		entries, err := os.ReadDir(filepath.Join(s.Root, dir))
		if err != nil && !os.IsNotExist(err) {
			s.t.Fatal(err)
		}
		for _, e := range entries {
			if !strings.HasSuffix(e.Name(), ".lock") {
				files = append(files, e.Name())
			}
		}
	}
	return files
}

// countMounts counts the mounts at the slots.
func (s *testSystem) countMounts() (n int) {
	s.t.Helper()
	for line := range strings.Lines(s.Run("cat", "/proc/self/mountinfo")) {
		if strings.HasPrefix(strings.Fields(line)[4], "/var/lib/pinbox/stores/") {
			n++
		}
	}
	return n
}
