package main

import (
	"bytes"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/sbom"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

func sbomCommand() *cobra.Command {
	var format, out string
	var bases []string
	cmd := &cobra.Command{
		Use:   "sbom {out/ | appliance.iso | delta/ --base old/}",
		Short: "Write the inventory of a store: images, layers and the packages in them",
		Args:  cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			write, ok := sbom.Formats()[format]
			if !ok {
				return cli.Usagef("--format %q: want spdx or cyclonedx", format)
			}
			inventory, err := sbom.Read(cmd.Context(), args[0], bases)
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := write(inventory, &text, version); err != nil {
				return err
			}
			if out == "" {
				_, err = cmd.OutOrStdout().Write(text.Bytes())
				return err
			}
			_, err = atomicfile.Write(out, text.Bytes(), 0o644)
			return err
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&bases, "base", nil,
		"`PATH` of the folder or ISO that a delta was built over, which has some of its layers; may be repeated")
	cli.Files(flags, "base", "iso")
	cli.Under("Inputs", flags)
	flags.StringVar(&format, "format", "spdx", "`FORMAT` of the inventory: spdx for SPDX 2.3, cyclonedx for CycloneDX 1.6")
	cli.Words(flags, "format", "spdx", "cyclonedx")
	flags.StringVarP(&out, "out", "o", "", "`FILE` to write (default: stdout)")
	cli.Files(flags, "out", "json")
	cli.Under("Output", flags)
	return cmd
}
