package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/runtime"
)

func mountCommand() *cobra.Command {
	const short = "Mount the attached stores that are intact and have their base, before CRI-O starts"
	// CRI-O waits for this command. Another command that holds the lock, perhaps for minutes, mounts
	// the stores first.
	return verb("mount", short, 5*time.Second, func(ctx context.Context, f *nodeFlags) (shown, error) {
		all, err := f.open().Mount(ctx)
		if all == nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(s runtime.StoreStatus) bool {
			return s.Error != "" && s.State != runtime.StoreRefused
		}) {
			err = errors.Join(err, errUnhealthy)
		}
		return shownStores(all), err
	})
}
