package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

func planCommand() *cobra.Command {
	const short = "Show what a pass would do and the space that it needs; change nothing"
	return verb("plan", short, 10*time.Second, func(ctx context.Context, f *nodeFlags) (shown, error) {
		plan, err := f.open().Plan(ctx)
		if err != nil {
			return nil, err
		}
		return describe(plan), plan.Problem
	})
}
