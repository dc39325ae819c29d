package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/cmd/cli"
)

func extractCommand() *cobra.Command {
	var output cli.Output
	var from looked
	var dir string
	cmd := &cobra.Command{
		Use:     "extract OUT IMAGE --oci DIR",
		Short:   "Write an image of a store as an OCI layout, for scanners and other programs",
		Example: `  pinbox extract out/ nginx --oci nginx/`,
		Long: `Write an image of a store as an OCI layout. Its layers are the tar streams with their DiffIDs, each
verified, and without compression; so the image has its ID, and its manifest another digest than
the pin. Its name there is its first tag, or else the repository and 12 digits of the pin.` + lookedHelp,
		Args: cobra.ExactArgs(2), ValidArgsFunction: cli.FileArgs(1, "iso", "squashfs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if dir == "" {
				return cli.Usagef("name the folder to make with --oci")
			}
			progress := cli.NewProgress(cmd, output)
			e, err := from.extract(cmd, args[0], args[1], dir, hooks(progress))
			progress.Close()
			if err != nil {
				return err
			}
			if !output.Text() {
				return output.Encode(cmd.OutOrStdout(), e)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s with %s, image ID %s\n", e.Path, e.Name,
				cli.Plural(e.Layers, "layer"), e.ID)
			return err
		},
	}
	from.add(cmd)
	cmd.Flags().StringVar(&dir, "oci", "", "`DIR` to make, with the OCI layout")
	output.Add(cmd.Flags())
	cli.Under("Output", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}

func (l *looked) extract(
	cmd *cobra.Command, name, image, dir string, hooks progress.Hooks,
) (e look.Extracted, err error) {
	images, err := l.open(cmd, name, hooks)
	if err != nil {
		return e, err
	}
	defer images.Close()
	return images.Extract(cmd.Context(), image, dir, hooks)
}
