package stores_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/verity"
)

// loops opens stores as loop devices that verify nothing, for a kernel without device mapper.
type loops struct {
	t           *testing.T
	unavailable error
	asked       int // how often whether it is available
	corrupted   bool
	open        map[string]mount.Target
	folders     map[string]string // of the files of open devices
	trees       []verity.Tree
}

func (l *loops) Available(context.Context) error {
	l.asked++
	return l.unavailable
}

func (l *loops) Open(_ context.Context, name string, e mount.Extent, t verity.Tree) (string, error) {
	if _, there := l.open[name]; there {
		return "", fmt.Errorf("%s is in use", name)
	}
	device := strings.TrimSpace(fixtures.Run(l.t, "losetup", "--read-only", "--find", "--show", "--offset",
		fmt.Sprint(e.Offset), "--sizelimit", fmt.Sprint(t.Blocks*verity.BlockSize), e.Path))
	number, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "dev"))
	l.folders[name] = filepath.Dir(e.Path)
	l.open[name] = mount.Target{Name: name, Device: strings.TrimSpace(string(number))}
	l.trees = append(l.trees, t)
	return device, err
}

// Release detaches the device once it is not in use.
func (l *loops) Release(ctx context.Context, name string) error {
	if _, err := l.Targets(ctx); err != nil {
		return err
	}
	if _, there := l.open[name]; !there {
		return nil
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(l.open[name].Device, "7:"), ":")
	fixtures.Run(l.t, "losetup", "--detach", "/dev/loop"+number)
	return nil
}

// Targets drops the devices that are gone.
func (l *loops) Targets(context.Context) ([]mount.Target, error) {
	for name, t := range l.open {
		// Once the device is gone, its number may be that of another file.
		file, err := os.ReadFile("/sys/dev/block/" + t.Device + "/loop/backing_file")
		if err != nil || !strings.HasPrefix(string(file), l.folders[name]+"/") {
			delete(l.open, name)
		} else {
			t.Corrupted = l.corrupted
			l.open[name] = t
		}
	}
	return slices.Collect(maps.Values(l.open)), nil
}

// wantTargets checks which devices there are. The kernel removes a loop device a little after its last use.
func (l *loops) wantTargets(want ...string) {
	l.t.Helper()
	fixtures.Until(l.t, func() error {
		if _, err := l.Targets(l.t.Context()); err != nil {
			l.t.Fatal(err)
		}
		if got := slices.Sorted(maps.Keys(l.open)); !slices.Equal(got, want) {
			return fmt.Errorf("got devices %v, want %v", got, want)
		}
		return nil
	})
}

// verified makes a node that has device mapper, and a folder with a store that has a hash tree.
func verified(t *testing.T) (d *testNode, l *loops, folder string, tree verity.Tree) {
	t.Helper()
	d = newNode(t, testStore{n: 0})
	l = &loops{t: t, open: map[string]mount.Target{}, folders: map[string]string{}}
	d.Mapper = l
	folder = delta(2).folder(t)
	return d, l, folder, addTree(t, folder)
}

// addTree adds a hash tree to the store in a folder.
func addTree(t *testing.T, folder string) verity.Tree {
	t.Helper()
	file := filepath.Join(folder, layout.DeltaStoreFile)
	tree := fixtures.AddTree(t, file)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, layout.SumsFile), digest.FromBytes(content).Encoded()+"  delta.squashfs\n")
	return tree
}

func (d *testNode) status() stores.Status {
	d.t.Helper()
	all, err := d.Status(d.t.Context())
	if err != nil || len(all) != 1 {
		d.t.Fatalf("got %d stores, %v, want 1", len(all), err)
	}
	return all[0]
}

// The root is computed while the store is copied, and kept; the store is mounted by it, and nothing
// is left when it is detached.
func TestAttachedStoresAreMountedByTheirTree(t *testing.T) {
	d, l, folder, tree := verified(t)
	o := d.attach(stores.AttachOptions{Source: folder})
	if o.Verity != tree {
		t.Errorf("got tree %v, want %v", o.Verity, tree)
	}
	d.wantMounted(2)
	l.wantTargets("pinbox-store-1")
	if !slices.Contains(l.trees, tree) {
		t.Errorf("got a device of %v, want %v", l.trees, tree)
	}
	if got := d.status().Verification; !got.Verified || got.Corrupted {
		t.Errorf("got %+v, want a store that is verified", got)
	}
	state, err := stores.ReadState(d.Dir)
	if err != nil || state.Stores[0].Verity != tree {
		t.Errorf("got %+v, %v in the state, want %v", state.Stores, err, tree)
	}
	if _, err := d.Rollback(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Detach(t.Context(), "1", d.main); err != nil {
		t.Fatal(err)
	}
	l.wantTargets()
}

// However many stores a command looks at, it asks once whether there is dm-verity: each question runs programs.
func TestDeviceMapperIsAskedOnce(t *testing.T) {
	d, l, folder, _ := verified(t)
	l.unavailable = errors.New("no device mapper here")
	d.attach(stores.AttachOptions{Source: folder})
	other := delta(1).folder(t)
	addTree(t, other)
	d.attach(stores.AttachOptions{Source: other})
	l.asked = 0
	d.wantMounted(2, 1)
	if l.asked != 1 {
		t.Errorf("status: got %d questions for two stores, want 1", l.asked)
	}
	l.unavailable = nil // its module was loaded
	d.reboot()
	if err := d.reconcile(); err != nil {
		t.Fatal(err)
	}
	l.wantTargets("pinbox-store-1", "pinbox-store-2")
}

// Nothing is open any more: a leftover of a killed process goes with the next pass.
func TestLeftoverDevicesAreReleased(t *testing.T) {
	d, l, folder, tree := verified(t)
	d.attach(stores.AttachOptions{Source: folder})
	file := filepath.Join(folder, layout.DeltaStoreFile)
	if _, err := l.Open(t.Context(), "pinbox-store-trial", mount.Extent{Path: file}, tree); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Reconcile(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	l.wantTargets("pinbox-store-1")
}

func TestAChangedBlockIsInTheStatus(t *testing.T) {
	d, l, folder, _ := verified(t)
	d.attach(stores.AttachOptions{Source: folder})
	l.corrupted = true
	if got := d.status(); got.Problem != nil || !got.Verification.Corrupted {
		t.Errorf("got %+v, want a mounted store that is corrupted", got)
	}
}

func TestPolicyOfVerity(t *testing.T) {
	none := errors.New("no device mapper here")
	for name, c := range map[string]struct {
		policy      layout.Verity
		unavailable error
		noTree      bool
		reason      string // why the store is not verified
		refused     string // why it is not attached
	}{
		"default":                {},
		"auto, no device mapper": {policy: layout.VerityAuto, unavailable: none, reason: "no device mapper here"},
		"auto, no tree":          {policy: layout.VerityAuto, noTree: true, reason: "there is no hash tree"},
		"off":                    {policy: layout.VerityOff, reason: "says off"},
		"require":                {policy: layout.VerityRequire},
		"require, no device mapper": {
			policy: layout.VerityRequire, unavailable: none, refused: "no device mapper here",
		},
		"require, no tree": {policy: layout.VerityRequire, noTree: true, refused: "there is no hash tree"},
	} {
		t.Run(name, func(t *testing.T) {
			d, l, folder, _ := verified(t)
			if c.noTree {
				folder = delta(2).folder(t)
			}
			d.Verity, l.unavailable = c.policy, c.unavailable
			_, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder})
			if c.refused != "" {
				if !errors.Is(err, mount.ErrVerity) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("got %v, want %v with %q", err, mount.ErrVerity, c.refused)
				}
				d.wantMounted()
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := d.status().Verification
			if got.Verified != (c.reason == "") || !strings.Contains(got.Reason, c.reason) {
				t.Errorf("got %+v, want the reason %q", got, c.reason)
			}
		})
	}
}

// interrupted is a device mapper whose program is killed while it is asked what it can do.
type interrupted struct {
	mount.DeviceMapper
	interrupt context.CancelFunc
}

func (i interrupted) Available(ctx context.Context) error {
	i.interrupt()
	return fmt.Errorf("dmsetup targets: %w", ctx.Err())
}

// patientMounter mounts even when its program is killed, as systemd does.
type patientMounter struct{ mount.Direct }

func (m patientMounter) Mount(ctx context.Context, mount mount.Mount) error {
	return m.Direct.Mount(context.WithoutCancel(ctx), mount)
}

// An interrupted dmsetup was taken for a kernel without dm-verity, and the store mounted unverified.
func TestInterruptedQuestionIsNoReasonToMountUnverified(t *testing.T) {
	d, l, folder, _ := verified(t)
	ctx, cancel := context.WithCancel(t.Context())
	d.Mounter = patientMounter{}
	d.Mapper = interrupted{DeviceMapper: l, interrupt: cancel}
	if _, err := d.Attach(ctx, stores.AttachOptions{Source: folder}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	l.wantTargets()
	if got := d.status(); got.Problem == nil {
		t.Errorf("got %+v, want a store that is not mounted", got)
	}
	d.Mapper = l
	if _, err := d.Reconcile(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	d.wantMounted(2)
	l.wantTargets("pinbox-store-1")
}

// Where keys are required, a store that stays where it is can change after its signature was checked.
func TestInPlaceWithKeysTakesVerity(t *testing.T) {
	for name, unavailable := range map[string]error{"with": nil, "without": errors.New("no device mapper here")} {
		t.Run(name, func(t *testing.T) {
			d, l, folder, _ := verified(t)
			l.unavailable = unavailable
			write(t, filepath.Join(d.Keys, "site.pub"),
				string(sign(t, filepath.Join(folder, layout.DeltaStoreFile))))
			_, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder, InPlace: true})
			if unavailable == nil {
				if err != nil {
					t.Fatal(err)
				}
				d.wantMounted(2)
				l.wantTargets("pinbox-store-1")
				l.unavailable = errors.New("gone") // at the next boot
				fixtures.Run(t, "umount", d.Slots[1])
				if all, err := d.Reconcile(t.Context(), nil); err != nil || !errors.Is(all[0].Problem, mount.ErrVerity) {
					t.Errorf("got %v, %v, want %v", all, err, mount.ErrVerity)
				}
				return
			}
			if !errors.Is(err, mount.ErrVerity) {
				t.Errorf("got %v, want %v", err, mount.ErrVerity)
			}
			d.wantMounted()
			if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder}); err != nil {
				t.Errorf("a copy: got %v", err)
			}
		})
	}
}

// The sum is right, and the tree in the file is not that of its data: no kernel could read it.
func TestAnotherTreeIsRefused(t *testing.T) {
	d, _, folder, tree := verified(t)
	file := filepath.Join(folder, layout.DeltaStoreFile)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[tree.Blocks*verity.BlockSize+20] ^= 1 // in the superblock
	write(t, file, string(content))
	write(t, filepath.Join(folder, layout.SumsFile), digest.FromBytes(content).Encoded()+"  delta.squashfs\n")
	_, err = d.Attach(t.Context(), stores.AttachOptions{Source: folder})
	if !errors.Is(err, stores.ErrDamaged) || !errors.Is(err, verity.ErrDiffers) {
		t.Errorf("got %v, want %v: %v", err, stores.ErrDamaged, verity.ErrDiffers)
	}
}

// A store that was unmounted while a container used it keeps its device, and so its name.
func TestNamesOfDevicesInUse(t *testing.T) {
	d, l, folder, tree := verified(t)
	e := mount.Extent{Path: filepath.Join(folder, layout.DeltaStoreFile)}
	used := []string{"pinbox-store-1", "pinbox-store-1-2"}
	for _, name := range used {
		device, err := l.Open(t.Context(), name, e, tree)
		if err != nil {
			t.Fatal(err)
		}
		where := t.TempDir()
		fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro", device, where)
		t.Cleanup(func() { fixtures.Run(t, "umount", where) })
	}
	d.attach(stores.AttachOptions{Source: folder})
	d.wantMounted(2)
	l.wantTargets(append(used, "pinbox-store-1-3")...)
}

// The status of a store that was not mounted since dm-verity is required has the reason.
func TestStatusOfARequiredTree(t *testing.T) {
	d, l, folder, _ := verified(t)
	d.attach(stores.AttachOptions{Source: folder})
	d.reboot()
	if got := d.problem("1"); !strings.Contains(got.Error(), "it is not mounted") {
		t.Errorf("got %v, want that it is not mounted", got)
	}
	d.Verity, l.unavailable = layout.VerityRequire, errors.New("no device mapper here")
	if got := d.problem("1"); !errors.Is(got, mount.ErrVerity) {
		t.Errorf("got %v, want %v", got, mount.ErrVerity)
	}
}

// The appliance's own store is verified by the device at its slot.
func TestVerificationOfTheOwnStore(t *testing.T) {
	d, l, _, _ := verified(t)
	own := func(m stores.Manager) *mount.Verification {
		t.Helper()
		got, err := m.Own(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := own(d.Manager); got == nil || got.Verified || !strings.Contains(got.Reason, "mounted without") {
		t.Errorf("got %+v, want that it was mounted without", got)
	}
	fixtures.Run(t, "umount", d.Slots[0])
	if got := own(d.Manager); got != nil {
		t.Errorf("got %+v, want nothing, since it is not mounted", got)
	}
	folder := testStore{n: 0}.folder(t)
	e := mount.Extent{Path: filepath.Join(folder, layout.DeltaStoreFile)}
	device, err := l.Open(t.Context(), layout.OwnVerityName, e, addTree(t, folder))
	if err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", "-t", "squashfs", "-o", "ro", device, d.Slots[0])
	if got := own(d.Manager); got == nil || !got.Verified {
		t.Errorf("got %+v, want a store that is verified", got)
	}
	if err := l.Release(t.Context(), layout.OwnVerityName); err != nil {
		t.Fatal(err)
	}
	if got := own(stores.Manager{}); got != nil {
		t.Errorf("got %+v, want nothing, since there is no slot", got)
	}
}
