package main

import (
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
)

// maxRunbook is the most bytes that are read: a hundred times what a build writes.
const maxRunbook = 1 << 20

func runbookCommand() *cobra.Command {
	var script bool
	cmd := &cobra.Command{
		Use:   "runbook out/",
		Short: "Print what is to be done with an appliance or a delta",
		Example: `  pinbox runbook out/
  pinbox runbook delta/ --script | less`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := runbook.File
			if script {
				name = runbook.Script
			}
			text, err := readRunbook(args[0], name)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&script, "script", false, "print the script of the steps that a machine can do")
	cli.Under("Output", cmd.Flags())
	return cmd
}

// readRunbook reads a file of a folder, and compares it with the sums.
func readRunbook(dir, name string) (text []byte, err error) {
	r, err := release.Open(dir, signature.Keys{})
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if r.Form == release.Medium {
		return nil, fmt.Errorf("%s: %w", dir, runbook.ErrMedium)
	}
	sums, err := r.Sums()
	if err != nil {
		return nil, err
	}
	if text, err = r.Read(name, maxRunbook); err == nil && sums[name] != digest.FromBytes(text).Encoded() {
		err = fmt.Errorf("%s: %w: %s is not the one of the sums", dir, release.ErrVerify, name)
	}
	return text, err
}
