package runtime

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/pinbox/pinbox/storage/pinset"
)

// StoreState is whether an attached store is mounted.
type StoreState string

// A store is mounted; or it is unavailable, and its status has the reason; or it is not attached, since
// CRI-O could not list its images with it, or since it was plugged in and only an operator can attach it; or it
// is being put together from a thin delta, and attached then.
const (
	StoreMounted     StoreState = "mounted"
	StoreUnavailable StoreState = "unavailable"
	StoreRefused     StoreState = "refused"
	StoreComposing   StoreState = "composing"
)

// StoreStatus is the state of an attached store.
type StoreStatus struct {
	Slot   string `json:"slot"`
	Digest string `json:"digest"`
	pinset.ReleaseID
	State StoreState `json:"state"`
	// Images is the number of its images.
	Images int `json:"images"`
	// Bytes of its file.
	Bytes int64 `json:"bytes"`
	// Path of its file or medium, if it is not a copy in the folder of the state.
	Path string `json:"path,omitempty"`
	// Current means that its sets count; Previous, that a rollback makes them count.
	Current  bool `json:"current,omitempty"`
	Previous bool `json:"previous,omitempty"`
	// Error is why it is unavailable, refused or corrupted.
	Error string `json:"error,omitempty"`
	// Verity is how a mounted store is verified.
	Verity *VerityStatus `json:"verity,omitempty"`
	// Progress of a store that is being put together.
	Progress *StoreProgress `json:"progress,omitempty"`
}

// ReleaseStatus is a release that the node keeps.
type ReleaseStatus struct {
	pinset.ReleaseID
	// State is current, previous, next after a rollback, or kept.
	State string `json:"state"`
	// Digest of the store that brought it, which may be in a compacted one now; "" for the appliance's own.
	Digest string `json:"digest,omitempty"`
	// Images is the number of images of its sets.
	Images int `json:"images"`
	// Attached is when it came to the node; zero for the appliance's own.
	Attached time.Time `json:"attached,omitzero"`
}

// StoreProgress is how far the work on a store is, in bytes of the work.
type StoreProgress struct {
	Bytes   int64 `json:"bytes"`
	OfBytes int64 `json:"ofBytes"`
	// ETA is when it will be done at the speed so far; zero while that is unknown.
	ETA time.Time `json:"eta,omitzero"`
}

// StoreImage is an image of a read-only store that no set has. If it is not pinned, the kubelet tries to
// remove it, which cannot succeed.
type StoreImage struct {
	// Names in the record of the store, or the ID of an image without a name.
	Names  []string `json:"names"`
	Pinned bool     `json:"pinned"`
}

// VerityStatus is how what is read from a store is verified.
type VerityStatus struct {
	State VerityState `json:"state"`
	// Reason is why the store is not verified.
	Reason string `json:"reason,omitempty"`
	// CorruptOffsets are where in the store, in bytes, changed blocks were read, as far as the
	// kernel's log has them.
	CorruptOffsets []int64 `json:"corruptOffsets,omitempty"`
}

// VerityState is whether dm-verity verifies a store.
type VerityState string

// A store is verified; or it is not, for a reason; or a read has found a changed block.
const (
	Verified   VerityState = "verified"
	Unverified VerityState = "unverified"
	Corrupted  VerityState = "corrupted"
)

// Problem is what is wrong with a store of so many images; "" if nothing is.
func (v *VerityStatus) Problem(images int) string {
	if v == nil || v.State != Corrupted {
		return ""
	}
	where := ""
	if len(v.CorruptOffsets) > 0 {
		where = fmt.Sprintf(" at byte %d", v.CorruptOffsets[0])
	}
	if n := len(v.CorruptOffsets); n > 1 {
		where += fmt.Sprintf(" and %d other places", n-1)
	}
	of := ""
	if images > 0 {
		of = fmt.Sprintf("; any of its %d images may be unreadable", images)
	}
	return fmt.Sprintf("the store has changed%s: reads of changed blocks fail%s", where, of)
}

// reconcileStores mounts the attached stores, and adds their errors to the report.
func (p *pass) reconcileStores(ctx context.Context) {
	rep := &p.rep
	rep.cluster = p.conf.Cluster
	if p.r.Stores == nil {
		return
	}
	state, err := p.r.Stores.Reconcile(ctx)
	rep.releases, rep.stores, rep.own, rep.program = state.Releases, state.Stores, state.Own, state.Program
	rep.problems = append(rep.problems, flatten(err)...)
	if problem := state.Own.Problem(0); problem != "" {
		rep.problems = append(rep.problems, fmt.Errorf("the appliance's store, slot 0: %s", problem))
	}
	for _, s := range state.Stores {
		if s.Error != "" && s.State != StoreRefused {
			name := cmp.Or(s.Digest, "of the appliance")
			rep.problems = append(rep.problems, fmt.Errorf("store %s, slot %s: %s", name, s.Slot, s.Error))
		}
	}
}
