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

// sum is the digest of a delta's file.
func sum(t *testing.T, folder string) digest.Digest {
	t.Helper()
	out := fixtures.Run(t, "sha256sum", filepath.Join(folder, artifact.DeltaStoreFile))
	return digest.Digest("sha256:" + strings.Fields(out)[0])
}

// CRI-O's own store may be on a disk that is not there: then nobody knows who uses what.
func TestDetachWithoutTheMainStore(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	bring(t, k, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := k.Detach(t.Context(), "1", filepath.Join(t.TempDir(), "away")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	well(t, k, 1)
	if _, err := k.Detach(t.Context(), "1", mainStore(t)); err != nil {
		t.Error(err)
	}
}

// A store that another program has written may have the same layers, under links of its
// own: nothing of ours can stand on those.
func TestDetachBesideAForeignStore(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "100m")
	for _, folder := range folders[1:] {
		bring(t, k, stores.AttachOptions{Source: folder, KeepSets: true})
	}
	foreign := t.TempDir()
	fixtures.Run(t, "cp", "-r", k.Slots[1]+"/.", foreign)
	links, err := filepath.Glob(filepath.Join(foreign, "overlay/*/link"))
	if err != nil || len(links) == 0 {
		t.Fatalf("%v, %v", links, err)
	}
	for _, link := range links {
		if err := os.WriteFile(link, []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k.OtherStores = []string{foreign}
	if _, err := k.Detach(t.Context(), "1", mainStore(t)); !errors.Is(err, stores.ErrInUse) ||
		!strings.Contains(err.Error(), "the store appliance") {
		t.Errorf("%v", err)
	}
	well(t, k, 2)
}

// What a medium says before its sum is known may not be what it holds when it is
// copied: only the latter counts.
func TestAStoreThatChangesItsMind(t *testing.T) {
	folders, _ := chain(t, 1)
	others, _ := chain(t, 1) // the same layers, by other names
	k := keep(t, folders[0], "100m")
	source := filepath.Join(t.TempDir(), "delta.squashfs")
	honest, lie := filepath.Join(folders[1], artifact.DeltaStoreFile), filepath.Join(others[1], artifact.DeltaStoreFile)
	fixtures.Run(t, "cp", lie, source)
	_, err := k.Attach(t.Context(), stores.AttachOptions{Source: source, Digest: sum(t, folders[1]),
		CheckSpace: func(int64) error {
			fixtures.Run(t, "cp", honest, source)
			return nil
		}})
	if err == nil {
		t.Error("it was attached with what it said first")
	}
	all, err := k.Status()
	if err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

// A store that is used in place is copied when somebody asks for that.
func TestInPlaceIsCopiedLater(t *testing.T) {
	folders, _ := chain(t, 1)
	k := keep(t, folders[0], "100m")
	if o := bring(t, k, stores.AttachOptions{Source: folders[1], InPlace: true}); o.Path == "" {
		t.Errorf("%+v", o)
	}
	bring(t, k, stores.AttachOptions{Source: folders[1], Auto: true})
	if all, err := k.Status(); err != nil || all[0].Path == "" {
		t.Errorf("%+v, %v", all, err)
	}
	if o := bring(t, k, stores.AttachOptions{Source: folders[1]}); o.Path != "" {
		t.Errorf("%+v", o)
	}
	if err := os.RemoveAll(folders[1]); err != nil {
		t.Fatal(err)
	}
	reboot(t, k)
	if _, err := k.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
}

// The appliance's own medium brings its own release back.
func TestAttachTheApplianceItself(t *testing.T) {
	folders, _ := chain(t, 1)
	k := attachedTo(t, folders)
	for _, c := range []struct {
		o       stores.AttachOptions
		current bool // the release of the delta
	}{
		{stores.AttachOptions{Source: folders[0], Auto: true}, true},
		{stores.AttachOptions{Source: folders[0]}, false},
		{stores.AttachOptions{Source: folders[1]}, true},
	} {
		bring(t, k, c.o)
		if all, err := k.Status(); err != nil || len(all) != 1 || all[0].Current != c.current {
			t.Errorf("%+v: %+v, %v", c.o, all, err)
		}
	}
}

// A compaction takes long; meanwhile somebody goes back, and another store comes.
func TestOthersWorkDuringACompaction(t *testing.T) {
	folders, pins := chain(t, 3)
	k := attachedTo(t, folders[:3])
	_, err := k.Compact(t.Context(), stores.CompactOptions{GraphRoot: mainStore(t),
		Write: func(ctx context.Context, out io.Writer, p stores.CompactPlan) error {
			if _, err := k.Rollback(ctx); err != nil {
				t.Error(err)
			}
			bring(t, k, stores.AttachOptions{Source: folders[3]})
			return stores.WriteCompacted(ctx, out, p)
		}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Fatal(err)
	}
	well(t, k, 2) // the compacted one, and what came
	set, err := os.ReadFile(filepath.Join(k.Sets, "s.yaml"))
	if err != nil || !strings.Contains(string(set), pins[3]) {
		t.Errorf("%s, %v", set, err)
	}
}

// Somebody has put a folder of his own among the files.
func TestStrangeFolders(t *testing.T) {
	folders, _ := chain(t, 1)
	k := attachedTo(t, folders)
	if err := os.MkdirAll(filepath.Join(k.Dir, "mine.part/of"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Reconcile(t.Context(), nil); err != nil {
		t.Error(err)
	}
	well(t, k, 1)
}

// On a node that the Machine Config Operator manages, what it pins is wanted.
func TestPinsOfTheOperatorAreWanted(t *testing.T) {
	folders, pins := chain(t, 1)
	k := keep(t, folders[0], "100m")
	etc := t.TempDir()
	o := Options{State: filepath.Dir(k.Dir), Sets: k.Sets, CRIODir: etc}
	o.Owner = runtime.MCO
	for _, err := range []error{
		os.MkdirAll(filepath.Join(etc, "crio.conf.d"), 0o755), os.MkdirAll(k.Sets, 0o755),
		os.WriteFile(filepath.Join(etc, "crio.conf.d/50-pinned-images"),
			[]byte("[crio.image]\npinned_images = [\""+pins[1]+"\"]\n"), 0o644),
		os.WriteFile(filepath.Join(k.Sets, "s.yaml"), sample.SetNamed("s", pins[0]), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	k.Wanted = o.wanted
	bring(t, k, stores.AttachOptions{Source: folders[1], KeepSets: true})
	if _, err := k.Detach(t.Context(), "1", mainStore(t)); !errors.Is(err, stores.ErrInUse) ||
		!strings.Contains(err.Error(), pins[1]) {
		t.Errorf("%v", err)
	}
}

// The folder of the state is a link to another disk: the kernel names mounts by where
// they are.
func TestStateBehindALink(t *testing.T) {
	folders, _ := chain(t, 2)
	k := keep(t, folders[0], "100m")
	link := filepath.Join(t.TempDir(), "pinbox")
	if err := os.Symlink(filepath.Dir(k.Dir), link); err != nil {
		t.Fatal(err)
	}
	linked, err := (Options{State: link, Sets: k.Sets, CRIODir: t.TempDir()}).manager()
	if err != nil {
		t.Fatal(err)
	}
	linked.Mounter, linked.Configured = stores.DirectMounter{}, linked.Slots
	for _, folder := range folders[1:] {
		bring(t, linked, stores.AttachOptions{Source: folder})
	}
	compacts(t, linked)
	if _, err := linked.Reconcile(t.Context(), func() bool { return true }); err != nil {
		t.Error(err)
	}
	well(t, linked, 1)
}
