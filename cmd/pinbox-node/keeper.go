package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/cri"
	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/systemd"
	"github.com/pinbox/pinbox/storage/pinset"
)

var (
	_ stores.Mounter = stores.Direct{}
	_ stores.Mounter = systemd.Mounts{}
)

// slots are the mount points of stores, read those of them that CRI-O reads, and others
// the read-only stores that it reads beside them: folders, or somebody else's.
func (f nodeFlags) slots() (slots, read, others []string, err error) {
	config, err := crio.ReadConfig(os.DirFS(f.crio))
	stores := config.ImageStores()
	for _, slot := range crio.Slots() {
		here := filepath.Join(f.stateDir(), "stores", filepath.Base(slot))
		slots = append(slots, here)
		if slices.Contains(stores, slot) || slices.Contains(stores, here) {
			read = append(read, here)
		}
	}
	for _, store := range stores {
		if filepath.Dir(store) != crio.SlotsDir && !slices.Contains(slots, store) {
			others = append(others, store)
		}
	}
	return slots, read, others, err
}

// stateDir is the folder of the state as the kernel names it in its table of mounts.
func (f nodeFlags) stateDir() string {
	if real, err := filepath.EvalSymlinks(f.state); err == nil {
		return real
	}
	return f.state // it is not there yet
}

// wanted are the images that somebody asks for: the sets, and on a node that the Machine
// Config Operator manages what that pins.
func (f nodeFlags) wanted() ([]pinset.Image, error) {
	sets, err := f.readSets()
	if owner, ownerErr := f.ownerOf(); ownerErr != nil || owner != runtime.MCO {
		return pinset.Union(sets...), errors.Join(err, ownerErr)
	}
	if errors.Is(err, fs.ErrNotExist) { // such a node need not have them
		err = nil
	}
	config, configErr := crio.ReadConfig(os.DirFS(f.crio))
	pinned := pinset.Set{}
	for _, pin := range config.PinnedImages {
		if img, err := pinset.ParseImage(pin); err == nil { // else a pattern, which is nobody's wish
			pinned.Images = append(pinned.Images, img)
		}
	}
	return pinset.Union(append(sets, pinned)...), errors.Join(err, configErr)
}

// keeper looks after the stores that are attached.
func (f nodeFlags) keeper() (stores.Manager, error) {
	etc := filepath.Dir(filepath.Clean(f.sets)) // /etc/pinbox
	config, err := crio.ReadNodeConfig(filepath.Join(etc, "node.json"))
	k := stores.Manager{
		Keys: filepath.Join(etc, "keys.d"),
		Dir:  filepath.Join(f.stateDir(), "stores.d"), Sets: f.sets, Mounter: stores.Direct{}, Open: openStore, Disc: openDisc,
		Wanted:       f.wanted,
		KeepPrevious: config.KeepPrevious, SELinuxContext: config.SELinuxContext, Wait: f.wait,
	}
	k.Slots, k.Read, k.Others, k.Unreadable = f.slots()
	if systemd.Running() {
		k.Mounter = systemd.Mounts{}
	}
	return k, err
}

// room says why there is none for a file of so many bytes.
func (f planFlags) room(bytes int64) error {
	reserve, err := runtime.ParseReserve(f.reserve)
	if err != nil {
		return cli.Usagef("--reserve: %w", err)
	}
	space, err := disk.Of(f.state)
	if err != nil {
		return err
	}
	return runtime.Limits{Reserve: reserve}.Room(space, bytes)
}

// settle makes the stores as they should be, for a pass; or only looks at them, while
// another pinbox-node is at it, or for a command that changes nothing.
func (f nodeFlags) settle(ctx context.Context) ([]runtime.StoreStatus, error) {
	k, err := f.keeper()
	if err != nil {
		return nil, err
	}
	k.Wait = 0
	var all []stores.Status
	if f.asBefore {
		all, err = k.Look()
	} else if all, err = k.Reconcile(ctx, nil); errors.Is(err, stores.ErrBusy) {
		all, err = k.Look()
	}
	return storeStatuses(all), err
}

func storeStatuses(all []stores.Status) (list []runtime.StoreStatus) {
	for _, s := range all {
		status := runtime.StoreStatus{
			Slot: s.Slot, Digest: s.ID.String(), Name: s.Name, State: runtime.StoreMounted, Images: s.Images, Bytes: s.Size,
			Path: s.Place, Current: s.Current, Previous: s.Previous,
		}
		if s.Problem != nil {
			status.State, status.Error = runtime.StoreUnavailable, strings.ReplaceAll(s.Problem.Error(), "\n", "; ")
		}
		list = append(list, status)
	}
	return list
}

// mainRoot is the root of CRI-O's own store.
func (f nodeFlags) mainRoot(ctx context.Context) (string, error) {
	client, err := cri.Dial(f.socket)
	if err != nil {
		return "", err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, f.wait)
	defer cancel()
	if _, _, err := client.Version(ctx); err != nil {
		return "", err
	}
	return client.Root(ctx)
}

// stopped says whether CRI-O does not run, nor starts.
func (f nodeFlags) stopped(ctx context.Context) bool {
	conn, err := net.Dial("unix", strings.TrimPrefix(f.socket, "unix://"))
	if err == nil {
		_ = conn.Close() // it was a knock at the door
		return false
	}
	return !systemd.Running() || !systemd.HasProcess(ctx, "crio.service")
}

// attach brings a store. One that nobody asked for may have come before its base, as of
// two media that are in when the machine boots.
func (f passFlags) attach(ctx context.Context, k stores.Manager, o stores.AttachOptions, waits func(error)) (stores.Attached, error) {
	for deadline, tries := time.Now().Add(f.wait), 1; ; tries++ {
		attached, err := k.Attach(ctx, o)
		if !o.Auto || !errors.Is(err, stores.ErrNoBase) || time.Now().After(deadline) {
			return attached, err
		}
		if tries == 1 {
			waits(err)
		}
		select {
		case <-ctx.Done():
			return attached, ctx.Err()
		case <-time.After(time.Second):
		}
	}
}

// follow has the images of the current sets pinned: by a pass, or by the pinbox-node
// that makes them already. That one may end before it has seen these sets.
func (f passFlags) follow(ctx context.Context) (runtime.Status, error) {
	if previous, err := f.load(); err == nil && len(f.pools) == 0 {
		f.pools = previous.Pools
	}
	alone := f
	alone.wait = 0
	for deadline := time.Now().Add(f.wait); ; {
		r, end, err := alone.alone(ctx, discard())
		if err == nil {
			defer end()
			r.Wait = f.wait
			return r.Pass(ctx)
		}
		if !errors.Is(err, errBusy) {
			return runtime.Status{}, err
		}
		status, err := f.look(ctx)
		if err != nil || status.Healthy() || time.Now().After(deadline) {
			return status, err
		}
		select {
		case <-ctx.Done():
			return status, ctx.Err()
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// look tells how things stand, while another pinbox-node makes passes.
func (f passFlags) look(ctx context.Context) (runtime.Status, error) {
	f.asBefore = true
	r, client, err := f.reconciler()
	if err != nil {
		return runtime.Status{}, err
	}
	defer client.Close()
	return r.Look(ctx, f.busy())
}
