package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func firstbootCommand() *cobra.Command {
	const short = "Make one pass: pin every image of the sets, pull what is missing, write the status"
	return verb("firstboot", short, 2*time.Minute, func(ctx context.Context, f *nodeFlags) (shown, error) {
		status, err := f.open().Pass(ctx)
		if err != nil {
			return nil, err
		}
		return shownStatus(status), problem(status)
	})
}
