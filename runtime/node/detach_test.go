package node

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
)

// storeDigest is the digest of a delta's file.
func storeDigest(t *testing.T, folder string) digest.Digest {
	t.Helper()
	out := fixtures.Run(t, "sha256sum", filepath.Join(folder, artifact.DeltaStoreFile))
	return digest.Digest("sha256:" + strings.Fields(out)[0])
}

// CRI-O's own store may be on a disk that is not there: then nobody knows who uses what.
func TestDetachWithoutTheMainStore(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	attach(t, m, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := m.Detach(t.Context(), "1", filepath.Join(t.TempDir(), "away")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	wantMounted(t, m, 1)
	if _, err := m.Detach(t.Context(), "1", emptyMainStore(t)); err != nil {
		t.Error(err)
	}
}

// A store that another program has written may have the same layers, under links of its
// own: nothing of ours can stand on those.
func TestDetachWithLayersInAForeignStore(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "100m")
	for _, folder := range folders[1:] {
		attach(t, m, stores.AttachOptions{Source: folder, KeepSets: true})
	}
	foreign := t.TempDir()
	fixtures.Run(t, "cp", "-r", m.Slots[1]+"/.", foreign)
	links, err := filepath.Glob(filepath.Join(foreign, "overlay/*/link"))
	if err != nil || len(links) == 0 {
		t.Fatalf("%v, %v", links, err)
	}
	for _, link := range links {
		if err := os.WriteFile(link, []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	m.OtherStores = []string{foreign}
	if _, err := m.Detach(t.Context(), "1", emptyMainStore(t)); !errors.Is(err, stores.ErrInUse) ||
		!strings.Contains(err.Error(), "the store appliance") {
		t.Errorf("%v", err)
	}
	wantMounted(t, m, 2)
}

// What a medium says before its sum is known may not be what it holds when it is
// copied: only the latter counts.
func TestSourceChangesBeforeTheCopy(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	others, _ := buildDeltas(t, 1) // the same layers, by other names
	m := newManager(t, folders[0], "100m")
	source := filepath.Join(t.TempDir(), "delta.squashfs")
	honest, lie := filepath.Join(folders[1], artifact.DeltaStoreFile), filepath.Join(others[1], artifact.DeltaStoreFile)
	fixtures.Run(t, "cp", lie, source)
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: source, Digest: storeDigest(t, folders[1]),
		CheckSpace: func(int64) error {
			fixtures.Run(t, "cp", honest, source)
			return nil
		}})
	if err == nil {
		t.Error("it was attached with what it said first")
	}
	all, err := m.Status()
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// A store that is used in place is copied when somebody asks for that.
func TestCopyOfAStoreInPlace(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	if o := attach(t, m, stores.AttachOptions{Source: folders[1], InPlace: true}); o.Path == "" {
		t.Errorf("%+v", o)
	}
	attach(t, m, stores.AttachOptions{Source: folders[1], Auto: true})
	if all, err := m.Status(); err != nil || all[0].Path == "" {
		t.Errorf("%+v, %v", all, err)
	}
	if o := attach(t, m, stores.AttachOptions{Source: folders[1]}); o.Path != "" {
		t.Errorf("%+v", o)
	}
	if err := os.RemoveAll(folders[1]); err != nil {
		t.Fatal(err)
	}
	reboot(t, m)
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
}

// The appliance's own medium brings its own release back.
func TestAttachApplianceStore(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManagerWithDeltas(t, folders)
	for _, c := range []struct {
		o       stores.AttachOptions
		current bool // the release of the delta
	}{
		{stores.AttachOptions{Source: folders[0], Auto: true}, true},
		{stores.AttachOptions{Source: folders[0]}, false},
		{stores.AttachOptions{Source: folders[1]}, true},
	} {
		attach(t, m, c.o)
		if all, err := m.Status(); err != nil || len(all) != 1 || all[0].Current != c.current {
			t.Errorf("%+v: %+v, %v", c.o, all, err)
		}
	}
}

// A compaction takes long; meanwhile somebody goes back, and another store comes.
func TestRollbackAndAttachDuringACompaction(t *testing.T) {
	folders, pins := buildDeltas(t, 3)
	m := newManagerWithDeltas(t, folders[:3])
	_, err := m.Compact(t.Context(), stores.CompactOptions{GraphRoot: emptyMainStore(t),
		Write: func(ctx context.Context, out io.Writer, p stores.CompactPlan) error {
			if _, err := m.Rollback(ctx); err != nil {
				t.Error(err)
			}
			attach(t, m, stores.AttachOptions{Source: folders[3]})
			return stores.WriteCompacted(ctx, out, p)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	wantMounted(t, m, 2) // the compacted one, and what came
	set, err := os.ReadFile(filepath.Join(m.Sets, "s.yaml"))
	if err != nil || !strings.Contains(string(set), pins[3]) {
		t.Errorf("%s, %v", set, err)
	}
}

// Somebody has put a folder of his own among the files.
func TestFolderOfAnotherProgram(t *testing.T) {
	folders, _ := buildDeltas(t, 1)
	m := newManagerWithDeltas(t, folders)
	if err := os.MkdirAll(filepath.Join(m.Dir, "mine.part/of"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	wantMounted(t, m, 1)
}

// On a node that the Machine Config Operator manages, what it pins is wanted.
func TestPinsOfTheOperatorAreWanted(t *testing.T) {
	folders, pins := buildDeltas(t, 1)
	m := newManager(t, folders[0], "100m")
	etc := t.TempDir()
	o := Options{State: filepath.Dir(m.Dir), Sets: m.Sets, CRIODir: etc}
	o.Owner = runtime.MCO
	for _, err := range []error{
		os.MkdirAll(filepath.Join(etc, "crio.conf.d"), 0o755), os.MkdirAll(m.Sets, 0o755),
		os.WriteFile(filepath.Join(etc, "crio.conf.d/50-pinned-images"),
			[]byte("[crio.image]\npinned_images = [\""+pins[1]+"\"]\n"), 0o644),
		os.WriteFile(filepath.Join(m.Sets, "s.yaml"), sample.SetNamed("s", pins[0]), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	m.Wanted = o.wanted
	attach(t, m, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := m.Detach(t.Context(), "1", emptyMainStore(t)); !errors.Is(err, stores.ErrInUse) ||
		!strings.Contains(err.Error(), pins[1]) {
		t.Errorf("%v", err)
	}
}

// The folder of the state is a link to another disk: the kernel names mounts by where
// they are.
func TestStateBehindALink(t *testing.T) {
	folders, _ := buildDeltas(t, 2)
	m := newManager(t, folders[0], "100m")
	link := filepath.Join(t.TempDir(), "pinbox")
	if err := os.Symlink(filepath.Dir(m.Dir), link); err != nil {
		t.Fatal(err)
	}
	linked, err := (Options{State: link, Sets: m.Sets, CRIODir: t.TempDir()}).manager()
	if err != nil {
		t.Fatal(err)
	}
	linked.Mounter, linked.Configured = stores.DirectMounter{}, linked.Slots
	for _, folder := range folders[1:] {
		attach(t, linked, stores.AttachOptions{Source: folder})
	}
	compact(t, linked)
	if _, err := linked.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	wantMounted(t, linked, 1)
}
