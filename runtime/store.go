package runtime

import (
	"context"
	"fmt"
)

// StoreState is whether an attached store is mounted.
type StoreState string

// A store is mounted; or it is unavailable, and its status has the reason.
const (
	StoreMounted     StoreState = "mounted"
	StoreUnavailable StoreState = "unavailable"
)

// StoreStatus is the state of an attached store.
type StoreStatus struct {
	Slot   string     `json:"slot"`
	Digest string     `json:"digest"`
	Name   string     `json:"name,omitempty"`
	State  StoreState `json:"state"`
	// Images is the number of its images.
	Images int `json:"images"`
	// Bytes of its file.
	Bytes int64 `json:"bytes"`
	// Path of its file or medium, if it is not a copy in the folder of the state.
	Path string `json:"path,omitempty"`
	// Current means that its sets count; Previous, that a rollback makes them count.
	Current  bool `json:"current,omitempty"`
	Previous bool `json:"previous,omitempty"`
	// Error is why it is unavailable.
	Error string `json:"error,omitempty"`
}

// stores mounts the attached stores, and adds their errors to the report.
func (r *Reconciler) stores(ctx context.Context, rep *report) {
	if r.Stores == nil {
		return
	}
	all, err := r.Stores(ctx)
	rep.stores, rep.problems = all, append(rep.problems, err)
	for _, s := range all {
		if s.State != StoreMounted {
			rep.problems = append(rep.problems, fmt.Errorf("store %s, slot %s: %s", s.Digest, s.Slot, s.Error))
		}
	}
}
