package mount

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/verity"
)

// Why a store is not mounted by dm-verity.
var (
	// ErrVerity means that a store is not mounted, since dm-verity is required.
	ErrVerity = fault.New(fault.Input, "the store cannot be mounted by dm-verity, which is required",
		"install dmsetup, and use a kernel with dm-verity and a store with a hash tree; leave out --in-place to "+
			"copy a store; \"verity\" in /etc/pinbox/node.json sets whether it is required")
	errVerityOff = errors.New("the configuration of the node says off")
)

// DeviceMapper opens stores by dm-verity: the kernel then verifies each block of a store when it is
// read, and a changed one is an I/O error.
type DeviceMapper interface {
	// Available returns why no store can be opened, or nil.
	Available(ctx context.Context) error
	// Open makes a block device of a store.
	Open(ctx context.Context, name string, e Extent, t verity.Tree) (device string, err error)
	// Release removes a block device as soon as nothing uses it.
	Release(ctx context.Context, name string) error
	// Targets lists the block devices.
	Targets(ctx context.Context) ([]Target, error)
}

// AskOnce returns the DeviceMapper, which is then asked once whether it is available.
func AskOnce(m DeviceMapper) DeviceMapper { return &askedOnce{DeviceMapper: m} }

// askedOnce is a DeviceMapper that is asked once whether it is available: the answer is the same for all stores that
// a command looks at, and each question runs programs.
type askedOnce struct {
	DeviceMapper
	asked  bool
	reason error
}

// Available keeps the answer, unless the question was interrupted.
func (a *askedOnce) Available(ctx context.Context) error {
	if !a.asked {
		a.reason = a.DeviceMapper.Available(ctx)
		a.asked = ctx.Err() == nil
	}
	return a.reason
}

// Target is a block device that verifies a store.
type Target struct {
	Name string
	// Device and Source are the numbers of the block device and of the one that has the store,
	// such as 253:0.
	Device, Source string
	// Corrupted is true once a read has found a changed block.
	Corrupted bool
}

// targetPrefix begins the names of the block devices. The name of a slot follows.
const targetPrefix = layout.VerityPrefix

// Verification says how what is read from a mounted store is verified.
type Verification struct {
	// Verified means that the kernel verifies each block that is read. Otherwise Reason is why not.
	Verified bool
	Reason   string
	// Corrupted means that a read has found a changed block. Offsets are where in the store, in bytes,
	// as far as the kernel's log has them.
	Corrupted bool
	Offsets   []int64
}

// Verifier decides which stores are mounted by dm-verity, and mounts them.
type Verifier struct {
	Policy layout.Verity
	Mapper DeviceMapper
	// Required means that the node requires signatures: a store that is used in place, and so
	// can change after its signature was checked, is mounted by dm-verity only.
	Required bool
}

// reason is why a store is mounted without dm-verity; nil if it is not.
func (v Verifier) reason(ctx context.Context, t verity.Tree) error {
	switch {
	case v.Policy == layout.VerityOff:
		return errVerityOff
	case t.IsZero():
		return verity.ErrNoTree
	}
	return v.Mapper.Available(ctx)
}

// Decide reports whether a store with a tree is mounted by dm-verity; inPlace is whether it is used where it was found.
// The error is ErrVerity if it must be and cannot.
func (v Verifier) Decide(ctx context.Context, t verity.Tree, inPlace bool) (bool, error) {
	reason := v.reason(ctx, t)
	switch {
	case ctx.Err() != nil: // a question that was interrupted is no reason to mount a store unverified
		return false, ctx.Err()
	case reason == nil:
		return true, nil
	case v.Policy == layout.VerityRequire:
		return false, fmt.Errorf("%w: %w", ErrVerity, reason)
	case v.Required && inPlace:
		return false, fmt.Errorf("%w, since this node requires signatures and the store is used in place: %w",
			ErrVerity, reason)
	}
	return false, nil
}

// PermitInPlace returns the ErrVerity of a store that would be used in place, before it is read.
func (v Verifier) PermitInPlace(ctx context.Context) error {
	_, err := v.Decide(ctx, verity.Tree{Blocks: 1}, true)
	return err
}

// Mount mounts a store by its tree. The block device goes with the mount, whoever unmounts it.
func (v Verifier) Mount(ctx context.Context, by Mounter, m Mount, e Extent, t verity.Tree) error {
	targets, err := v.Mapper.Targets(ctx)
	if err != nil {
		return err
	}
	// A store that was unmounted while a container used it still has its device.
	name := targetPrefix + filepath.Base(m.Where)
	for n := 2; slices.ContainsFunc(targets, func(t Target) bool { return t.Name == name }); n++ {
		name = fmt.Sprintf("%s%s-%d", targetPrefix, filepath.Base(m.Where), n)
	}
	if m.What, err = v.Mapper.Open(ctx, name, e, t); err != nil {
		return err
	}
	m.Options = slices.DeleteFunc(slices.Clone(m.Options), ofLoop)
	return errors.Join(by.Mount(ctx, m), v.Mapper.Release(ctx, name))
}

// ofLoop reports whether a mount option is for the loop device of a file.
func ofLoop(option string) bool {
	name, _, _ := strings.Cut(option, "=")
	return name == "loop" || name == "offset" || name == "sizelimit"
}

// Sweep releases the block devices that a killed process has left. Those in use stay until they are
// not.
func (v Verifier) Sweep(ctx context.Context) {
	targets, _ := v.Mapper.Targets(ctx)
	for _, t := range targets {
		if t.Name != layout.OwnVerityName { // it belongs to a unit
			_ = v.Mapper.Release(ctx, t.Name) // the next sweep tries again
		}
	}
}

// Verification describes how the mount at a slot is verified; t is the tree of its store.
func (v Verifier) Verification(ctx context.Context, slot string, t verity.Tree) (Verification, error) {
	device, err := deviceNumber(slot)
	if err != nil {
		return Verification{}, err
	}
	targets, err := v.Mapper.Targets(ctx)
	if err != nil {
		return Verification{}, err
	}
	i := slices.IndexFunc(targets, func(t Target) bool { return t.Device == device })
	if i < 0 {
		reason := v.reason(ctx, t)
		if reason == nil {
			reason = errors.New("it was mounted without")
		}
		return Verification{Reason: reason.Error()}, nil
	}
	found := Verification{Verified: true, Corrupted: targets[i].Corrupted}
	if found.Corrupted {
		found.Offsets = corruptOffsets(targets[i].Source)
	}
	return found, nil
}
