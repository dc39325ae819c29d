package stores_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/crio"
)

// copyStore copies the folder of a store, so that a test can damage it.
func copyStore(t *testing.T, store string) string {
	t.Helper()
	dir := t.TempDir()
	fixtures.Run(t, "cp", "-r", store+"/.", dir)
	return dir
}

// A damaged or unsuitable store is refused before anything is changed, and leaves no files. A good one may then be
// attached by two processes at once.
func TestRefusedStores(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	s.mustRun("firstboot")
	short, changed, bare := copyStore(t, s.stores[1]), copyStore(t, s.stores[1]), copyStore(t, s.stores[1])
	invalid := t.TempDir()
	file := func(dir string) string { return filepath.Join(dir, artifact.DeltaStoreFile) }
	content, err := os.ReadFile(file(changed))
	if err != nil {
		t.Fatal(err)
	}
	content[200]++ // data of a file
	for _, err := range []error{
		os.Truncate(file(short), int64(len(content)/2)),
		os.WriteFile(file(changed), content, 0o644),
		os.Remove(filepath.Join(bare, artifact.SumsFile)),
		os.WriteFile(filepath.Join(invalid, "store.squashfs"), make([]byte, 8192), 0o644),
		os.WriteFile(filepath.Join(invalid, "sums.txt"), []byte(strings.Repeat("0", 64)+"  store.squashfs\n"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	before := s.pinboxFiles()
	for name, c := range map[string]struct {
		code int
		text string
		args []string
	}{
		"its base is missing":      {3, "layers are missing", []string{s.stores[2]}},
		"cut short":                {4, "damaged", []string{short}},
		"one byte changed":         {4, "it has SHA-256", []string{changed}},
		"one byte changed, in use": {4, "it has SHA-256", []string{changed, "--in-place"}},
		"no sums":                  {3, "the SHA-256 of the store is unknown", []string{bare}},
		"another digest":           {4, "it has SHA-256", []string{bare, "--digest", "sha256:" + strings.Repeat("0", 64)}},
		"no store":                 {4, "damaged", []string{invalid}},
		"an empty folder":          {3, "no store found", []string{t.TempDir()}},
		"nothing":                  {3, "no such file", []string{"/no/such/file"}},
		"not a device of a medium": {3, "no store found", []string{"/dev/null"}},
		"too large":                {5, "are kept in reserve", []string{s.stores[1], "--reserve", "900Ti"}},
	} {
		t.Run(name, func(t *testing.T) {
			result := s.Do("attach", c.args...)
			if result.Code != c.code || !strings.Contains(result.Err, c.text) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", result.Code, c.code, c.text, result.Out, result.Err)
			}
		})
	}
	if after := s.pinboxFiles(); !slices.Equal(after, before) {
		t.Errorf("got the files %v, want %v", after, before)
	}
	if got := s.countMounts(); got != 1 {
		t.Errorf("got %d mounts, want 1", got)
	}
	s.wantPinned(0)
	s.attachTwiceAtOnce(file(bare), "--digest", digestOf(t, file(bare))) // then it needs no sums
	s.mustRun("attach", s.stores[1])                                     // again
	s.wantPinned(1)
}

// A store is refused if CRI-O's configuration names no slots, and one for another architecture also if it does.
func TestNodeWithoutAStore(t *testing.T) {
	t.Parallel()
	own := sharedSeries(t).stores[0]
	registry, pins := fixtures.Samples(t)
	o := appliance.Options(t, sample.SetNamed("s", pins.Index))
	program, err := os.ReadFile(o.NodeBinary)
	if err != nil {
		t.Fatal(err)
	}
	program[18] = 183 // EM_AARCH64
	o.NodeBinary = filepath.Join(t.TempDir(), "pinbox-node")
	if err := os.WriteFile(o.NodeBinary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	o.Appliance.Spec.Platform = "linux/arm64"
	appliance.Build(t, o)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	s := &testSystem{Node: appliance.Bare(t), t: t}
	s.Start()
	s.wantExit(3, "CRI-O is not configured to read stores at the slots", "attach", own)
	write(t, filepath.Join(s.Root, crio.StoresPath), string(crio.RenderStores(crio.Slots(), false)))
	s.wantExit(3, "the store is for another architecture: linux/arm64", "attach", o.Out)
}

// A node has seven slots for attached stores.
func TestEverySlotHasAStore(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 9)
	for n := 1; n < 8; n++ {
		s.mustRun("attach", s.stores[n])
	}
	s.wantPinned(7)
	s.wantExit(5, "no slot is free: all 7 have a store", "attach", s.stores[8])
	s.wantPinned(7)
	s.checkContainers(7)
}

// attachTwiceAtOnce has two processes attach the same store at once, and a third one stop waiting for the lock.
func (s *testSystem) attachTwiceAtOnce(args ...string) {
	t := s.t
	t.Helper()
	first, second := s.Pinbox("attach", args...), s.Pinbox("attach", args...)
	for _, err := range []error{first.Start(), second.Start(), first.Wait(), second.Wait()} {
		if err != nil {
			t.Errorf("attach: got %v, want no error", err)
		}
	}
	s.wantPinned(1)
	if got := s.countMounts(); got != 2 {
		t.Errorf("got %d mounts, want 2", got)
	}
	f, err := os.Open(filepath.Join(s.Root, "var/lib/pinbox/stores.d/.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	s.wantExit(7, "another pinbox-node is changing the stores", "attach", append(args, "--wait", "100ms")...)
}

// If a base is not mounted, or the file of a store is damaged or missing, CRI-O starts with the
// other stores, and the status names the problem. The same with an error in node.json. While CRI-O runs, no store is
// detached that a missing one may need.
func TestStartWithUnavailableStores(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 3)
	s.mustRun("attach", s.stores[1])
	s.mustRun("attach", s.stores[2])
	copies, err := filepath.Glob(filepath.Join(s.Root, "var/lib/pinbox/stores.d/*.squashfs"))
	if err != nil || len(copies) != 2 {
		t.Fatalf("got the files %v, %v, want two stores", copies, err)
	}
	first, second := copies[0], copies[1]
	if out := s.mustRun("status").Out; strings.Index(out, filepath.Base(first)[:12]) > strings.Index(out,
		filepath.Base(copies[1])[:12]) {
		first, second = second, first
	}
	s.detachWithAMissingFile(second)
	for name, c := range map[string]struct {
		damage, repair func()
		unavailable    int
		images         int
		text           string
	}{
		"no base": {func() {}, func() {}, 2, 0, "layers are missing"},
		"a missing file": {
			func() { s.mountBase(); rename(t, first, first+".moved") }, func() {
				rename(t, first+".moved", first)
			}, 2, 4, "the file of the store is missing",
		},
		"a file of another size": {
			func() { s.mountBase(); resize(t, first, 4096) }, func() { resize(t, first, -4096) }, 2, 4, "the store is damaged: ",
		},
		"all stores": {func() { s.mountBase() }, func() {}, 0, 12, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s.reboot()
			c.damage()
			result := s.Do("mount")
			if (result.Code == 0) != (c.unavailable == 0) || !strings.Contains(result.Out, c.text) ||
				strings.Count(result.Out, " unavailable ") != c.unavailable {
				t.Errorf("mount: got exit code %d, want %d unavailable, %q\n%s%s", result.Code, c.unavailable, c.text,
					result.Out, result.Err)
			}
			s.Start()
			list, err := s.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
			if err != nil || len(list.Images) != c.images {
				t.Errorf("got %d images, %v, want %d", len(list.GetImages()), err, c.images)
			}
			result = s.Do("status")
			if !strings.Contains(result.Out, c.text) || (result.Code == 0) != (c.unavailable == 0) {
				t.Errorf("status: got exit code %d, want %q\n%s", result.Code, c.text, result.Out)
			}
			c.repair()
		})
	}
	s.startWithInvalidConfiguration()
}

// detachWithAMissingFile has no file of the second store: it is unknown what that store needs, so no other store is
// detached.
func (s *testSystem) detachWithAMissingFile(second string) {
	s.t.Helper()
	rename(s.t, second, second+".moved")
	s.wantExit(3, "whose file cannot be read", "detach", "1")
	rename(s.t, second+".moved", second)
	s.wantPinned(2)
	s.checkContainer(2)
}

// reboot stops CRI-O and unmounts what is mounted of the appliance's own store and two others.
func (s *testSystem) reboot() {
	s.t.Helper()
	s.Stop(syscall.SIGTERM)
	for _, n := range []string{"2", "1", "0"} {
		s.Try("umount", "/var/lib/pinbox/stores/"+n) // or it is not mounted
	}
}

// startWithInvalidConfiguration has an error in node.json, which is reported. CRI-O starts with the current release all
// the same.
func (s *testSystem) startWithInvalidConfiguration() {
	t := s.t
	t.Helper()
	config := filepath.Join(s.Root, "etc/pinbox/node.json")
	if err := os.WriteFile(config, []byte(`{"keepPrevious": 1,}`), 0o644); err != nil {
		t.Fatal(err)
	}
	s.reboot()
	s.mountBase()
	s.wantExit(1, config, "mount")
	s.Start()
	s.wantPinned(2)
	s.checkContainer(2)
	s.wantExit(1, config, "status")
}

// mountBase mounts the appliance's own store.
func (s *testSystem) mountBase() { s.MountUnit("var-lib-pinbox-stores-0.mount") }

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

// resize changes the size of a file by so many bytes.
func resize(t *testing.T, name string, by int64) {
	t.Helper()
	fi, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, fi.Size()+by); err != nil {
		t.Fatal(err)
	}
}
