package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func statusCommand() *cobra.Command {
	const short = "Show sets, images, stores and conditions; exit code 0 only when all is pinned"
	cmd := verb("status", short, 10*time.Second, func(ctx context.Context, f *nodeFlags) (shown, error) {
		status, err := f.open().Status(ctx)
		if err != nil {
			return nil, err
		}
		return statusOfAll(status), problem(status)
	})
	cmd.Example = `  pinbox-node status
  pinbox-node status --output json`
	return cmd
}
