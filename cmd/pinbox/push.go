package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
)

func pushCommand() *cobra.Command {
	var o artifact.PushOptions
	var access accessFlags
	var output cli.Output
	cmd := &cobra.Command{
		Use:   "push {delta/ | out/} oci://REGISTRY/REPOSITORY[:TAG]",
		Short: "Push a store to a registry as an OCI artifact, so that nodes can attach it",
		Example: `  pinbox push delta/ oci://registry.example.com/site/releases
  pinbox push delta/ oci://registry.example.com/site/releases:42 --authfile auth.json`,
		Args: cobra.ExactArgs(2), ValidArgsFunction: cli.FileArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := access.complete(); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, output)
			o.Dir, o.To, o.Hooks, o.Access = args[0], args[1], hooks(progress), access.access
			o.Access.Insecure = access.insecure
			pushed, err := artifact.Push(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			return printPushed(cmd, output, pushed)
		},
	}
	access.add(cmd.Flags(), "; may be repeated")
	cli.Under("Registries", cmd.Flags())
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	cli.Interrupted(cmd, "the registry keeps the files that are there; run the command again to send the others")
	return cmd
}

func printPushed(cmd *cobra.Command, output cli.Output, r artifact.PushResult) error {
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), r)
	}
	printWarnings(cmd, r.Warnings)
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s of %s were sent; attach it with\n  pinbox-node attach %s\n",
		bytesize.Format(r.Sent), bytesize.Format(r.Bytes), r.Reference)
	return err
}
