package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/aside"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

var (
	_ mount.Mounter = mount.Direct{}
	_ mount.Mounter = systemd.Mounter{}
)

// Stores returns the status of the attached stores. It changes nothing.
func Stores(ctx context.Context, o Options) ([]runtime.StoreStatus, error) {
	o.readOnly = true
	return o.complete().reconcileStores(ctx)
}

// Contents returns what the mounted stores have, for those who make deltas for the node. The error names stores that
// cannot be read; the others are there.
func Contents(o Options) ([]pinset.StoreContent, error) {
	m, err := o.complete().manager()
	if err != nil {
		return nil, err
	}
	return stores.Contents(m)
}

// manager returns the manager of the attached stores.
func (o Options) manager() (stores.Manager, error) {
	config, err := o.config()
	m := stores.Manager{
		Dir: filepath.Join(o.stateDir(), layout.AttachedDir), Keys: o.complete().Keys, Sets: o.Sets,
		Signed: config.Signed == layout.SignedRequired,
		Wanted: o.wanted, Mounter: mount.Direct{},
		KeepPrevious: config.KeepPrevious, SELinuxContext: config.SELinuxContext, Wait: o.Wait,
		Verity: config.Verity, Appliance: config.ReleaseID, OwnStore: config.Store,
		RunRoots: o.runRoots(),
		Programs: filepath.Join(o.stateDir(), filepath.Base(layout.ProgramsDir)), OwnProgram: config.Program,
	}
	m.Slots, m.Configured, m.OtherStores, m.ConfigError = o.slots()
	if systemd.Running() {
		m.Mounter = systemd.Mounter{}
	}
	return m, err
}

// config reads the configuration of the node.
func (o Options) config() (layout.NodeConfig, error) {
	return layout.ReadNodeConfig(o.complete().Config)
}

// slots returns the mount points of stores, the ones that CRI-O's configuration lists, and its
// other additional image stores: folders, or stores of other programs.
func (o Options) slots() (slots, configured, others []string, err error) {
	stores, err := o.imageStores()
	for _, slot := range crio.Slots() {
		here := filepath.Join(o.stateDir(), "stores", filepath.Base(slot))
		slots = append(slots, here)
		if slices.Contains(stores, slot) || slices.Contains(stores, here) {
			configured = append(configured, here)
		}
	}
	for _, store := range stores {
		if filepath.Dir(store) != layout.SlotsDir && !slices.Contains(slots, store) {
			others = append(others, store)
		}
	}
	return slots, configured, others, err
}

// storageConf reads storage.conf, in the same etc as the folder of CRI-O's configuration.
func storageConf(crioDir string) (crio.Storage, error) {
	root := filepath.Dir(filepath.Dir(filepath.Clean(crioDir)))
	for _, name := range []string{crio.StorageConf, crio.VendorStorageConf} {
		content, err := os.ReadFile(filepath.Join(root, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return crio.Storage{}, err
		}
		return crio.ReadStorage(content)
	}
	return crio.Storage{}, nil
}

// imageStores are the additional image stores that CRI-O has: those of storage.conf, and those of its own files.
func (o Options) imageStores() ([]string, error) {
	config, err := crio.ReadConfig(os.DirFS(o.CRIODir))
	storage, confErr := storageConf(o.CRIODir)
	var options []string
	for _, store := range storage.Stores { // ReloadConfigurationFile in containers/storage, types/options.go
		options = append(options, "overlay.imagestore="+store)
	}
	config.StorageOptions = append(options, config.StorageOptions...)
	return config.ImageStores(), errors.Join(err, confErr)
}

// mainStores are the graph roots of CRI-O's own store by its files: that of its images, and of its containers if that
// is another.
func (o Options) mainStores() (roots []string) {
	config, _ := crio.ReadConfig(os.DirFS(o.CRIODir)) // the pass reports the error
	storage, _ := storageConf(o.CRIODir)
	roots = append(roots, cmp.Or(config.Root, storage.GraphRoot, crio.DefaultRoot))
	if storage.ImageStore != "" {
		roots = append(roots, storage.ImageStore)
	}
	return roots
}

// runRoots are the folders of containers/storage that may have records which do not survive a reboot.
func (o Options) runRoots() (roots []string) {
	config, _ := crio.ReadConfig(os.DirFS(o.CRIODir)) // the pass reports the error
	storage, _ := storageConf(o.CRIODir)
	for _, root := range []string{config.RunRoot, storage.RunRoot, crio.DefaultRunRoot} {
		if root != "" && !slices.Contains(roots, root) {
			roots = append(roots, root)
		}
	}
	return roots
}

// ErrTwice means that CRI-O lists the images of a store twice.
var ErrTwice = errors.New("two options of CRI-O name the same store, and CRI-O lists its images twice")

// checkTwice returns an ErrTwice if the configuration has a store by two names.
func checkTwice(stores []string) error {
	names := map[string]string{}
	for _, name := range stores {
		store := name
		if path, err := filepath.EvalSymlinks(store); err == nil {
			store = path
		}
		if earlier, ok := names[store]; ok {
			return fmt.Errorf("%w: %s and %s; remove one of them from storage.conf or the files of CRI-O", ErrTwice,
				earlier, name)
		}
		names[store] = name
	}
	return nil
}

// reconcileStores mounts the attached stores, for a pass; or it only reads their state, while
// another pinbox-node changes them, or for a verb that changes nothing.
func (o Options) reconcileStores(ctx context.Context) ([]runtime.StoreStatus, error) {
	m, err := o.manager()
	if err != nil {
		return nil, err
	}
	m.Wait = 0
	var all []stores.Status
	if o.readOnly {
		all, err = m.Status(ctx)
	} else {
		if all, err = m.Reconcile(ctx, nil); errors.Is(err, stores.ErrBusy) {
			all, err = m.Status(ctx)
		}
		err = errors.Join(err, linkArtifacts(o), o.mend(ctx, false))
	}
	return append(storeStatuses(all), composingStores(o)...), err
}

// aside are the records that are set aside on the node. hidden are slots that CRI-O does not have.
func (o Options) aside(hidden ...string) aside.Records {
	_, configured, others, _ := o.slots()
	visible := slices.DeleteFunc(append(configured, others...), func(slot string) bool {
		return slices.Contains(hidden, slot)
	})
	return aside.Records{
		Dir: filepath.Join(o.stateDir(), layout.AttachedDir), Main: o.mainStores(), Others: visible, Wait: o.Wait,
	}
}

// mend sets records of CRI-O's own store aside that stand on a store which is gone, if CRI-O starts only then, and
// puts back others. If it is unknown which stores CRI-O has, it does nothing, and others report why.
func (o Options) mend(ctx context.Context, starts bool) error {
	if _, _, _, err := o.slots(); err != nil {
		return nil
	}
	records := o.aside()
	if !starts {
		records.Wait = 0
	}
	return records.Mend(ctx, starts)
}

// linkArtifacts makes the folder of the state an artifact store of CRI-O with the OCI artifacts of the mounted stores.
func linkArtifacts(o Options) error {
	slots, _, others, _ := o.slots() // a pass reports the error
	if err := stores.LinkArtifacts(o.stateDir(), append(slots, others...)); err != nil {
		return fmt.Errorf("OCI artifacts: %w", err)
	}
	return nil
}

func storeStatuses(all []stores.Status) []runtime.StoreStatus {
	list := []runtime.StoreStatus{}
	for _, s := range all {
		status := runtime.StoreStatus{
			Slot: s.Slot, Digest: s.ID.String(), ReleaseID: s.ReleaseID, State: runtime.StoreMounted,
			Images: s.Images, Bytes: s.Size,
			Path: s.Path, Current: s.Current, Previous: s.Previous,
		}
		if s.Problem != nil {
			status.State = runtime.StoreUnavailable
			if s.Refused {
				status.State = runtime.StoreRefused
			}
			status.Error = strings.ReplaceAll(s.Problem.Error(), "\n", "; ")
		} else {
			status.Verity = verityStatus(s.Verification)
			status.Error = status.Verity.Problem(s.Images)
		}
		list = append(list, status)
	}
	return list
}

func verityStatus(v mount.Verification) *runtime.VerityStatus {
	status := &runtime.VerityStatus{State: runtime.Unverified, Reason: v.Reason, CorruptOffsets: v.Offsets}
	switch {
	case v.Corrupted:
		status.State = runtime.Corrupted
	case v.Verified:
		status.State = runtime.Verified
	}
	return status
}

// readPrograms returns which pinbox-node runs, and which one follows. self reads that of this process.
func readPrograms(o Options, self func() (pinset.Program, error)) (s runtime.ProgramStatus, err error) {
	m, err := o.manager()
	if err != nil {
		return s, err
	}
	s.Own = m.OwnProgram
	s.Current, err = m.CurrentProgram()
	if err != nil || o.readOnly { // what asks is not pinbox-node.service
		return s, err
	}
	s.Running, err = self()
	return s, err
}

// readSelf reads the program of this process, also if its file was replaced: proc(5).
func readSelf() (pinset.Program, error) {
	f, err := os.Open("/proc/self/exe")
	if err != nil {
		return pinset.Program{}, err
	}
	defer f.Close()
	return pinset.ReadProgram(f)
}

// ownStore returns how the appliance's own store is verified; nil if it is not mounted.
func (o Options) ownStore(ctx context.Context) (*runtime.VerityStatus, error) {
	m, err := o.manager()
	if err != nil {
		return nil, err
	}
	found, err := m.Own(ctx)
	if err != nil || found == nil {
		return nil, err
	}
	return verityStatus(*found), nil
}
