package main

import (
	"encoding/json"
	"time"

	"github.com/spf13/cobra"
)

func planCommand() *cobra.Command {
	var f passFlags
	var output string
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Say what a pass would do and the space that it needs; change nothing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			r, client, err := f.reconciler()
			if err != nil {
				return err
			}
			defer client.Close()
			r.Manifests = readOnly(r.Manifests)
			plan, claims, problem := r.Plan(cmd.Context())
			p := describe(plan, claims, problem)
			if output == "json" {
				enc := json.NewEncoder(cmd.OutOrStdout())
				enc.SetIndent("", "  ")
				err = enc.Encode(p)
			} else {
				err = p.print(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return problem
		},
	}
	f.nodeFlags.add(cmd.Flags(), 10*time.Second)
	f.addRegistries(cmd.Flags())
	cmd.Flags().IntVar(&f.parallel, "parallel", 0, "pulls at a time (default: 4, or 2 in the pool master or control-plane)")
	cmd.Flags().StringVar(&output, "output", "table", "table, or json for programs")
	return cmd
}
