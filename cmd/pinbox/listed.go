package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/look"
	"github.com/pinbox/pinbox/cmd/cli"
)

// printImages prints the images of a release: name and digest.
func printImages(out io.Writer, output cli.Output, images *look.Images) error {
	all := images.List()
	if !output.Text() {
		return output.Encode(out, all)
	}
	w := cli.Table(out)
	for _, img := range all {
		fmt.Fprintf(w, "%s\t%s\n", printable(img.Name), img.Digest)
	}
	return w.Flush()
}

// printFiles prints the files of an image while they are listed, and JSON at the end.
func printFiles(cmd *cobra.Command, output cli.Output, long bool, list func(func(look.File) error) error) error {
	all, out := []look.File{}, cmd.OutOrStdout()
	w := cli.Table(out)
	err := list(func(f look.File) error {
		switch {
		case cmd.Context().Err() != nil:
			return cmd.Context().Err()
		case !output.Text():
			all = append(all, f)
			return nil
		case !long:
			_, err := fmt.Fprintln(out, printable(f.Name))
			return err
		}
		fmt.Fprintf(w, "%s\t%s", f.Row(), printable(f.Name))
		if f.Target != "" {
			fmt.Fprintf(w, " -> %s", printable(f.Target))
		}
		_, err := fmt.Fprintln(w)
		return err
	})
	switch {
	case err != nil:
		return err
	case !output.Text():
		return output.Encode(out, all)
	}
	return w.Flush()
}
