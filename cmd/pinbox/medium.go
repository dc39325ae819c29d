package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

func mediumCommand() *cobra.Command {
	var o artifact.MediumOptions
	var sign signFlags
	var output cli.Output
	var parts string
	cmd := &cobra.Command{
		Use:   "medium {out/ | delta/} -o medium.iso",
		Short: "Write a store to an ISO without a system, with the label that nodes look for",
		Example: `  pinbox medium delta/ -o delta.iso
  pinbox medium delta/ --split 4G -o parts && cp -r parts /run/media/stick/`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.Out == "" {
				return cli.Usagef("name the file to write with -o")
			}
			var err error
			if o.Split, err = partSize(parts); err != nil {
				return err
			}
			if o.Signer, err = sign.signer(cmd); err != nil {
				return err
			}
			progress := cli.NewProgress(cmd, output)
			o.Dir, o.Hooks = args[0], hooks(progress)
			err = artifact.Medium(cmd.Context(), o)
			progress.Close()
			if err != nil {
				return err
			}
			if o.Split > 0 {
				return printSplit(cmd, output, o.Out)
			}
			r, err := artifact.OpenISO(o.Out)
			if err != nil {
				return err
			}
			defer r.Close()
			info, err := artifact.Inspect(r)
			if err != nil {
				return err
			}
			return printMedium(cmd, output, o.Out, info)
		},
	}
	sign.add(cmd.Flags())
	cmd.Flags().StringVar(&parts, "split", "",
		"write a folder with the store in parts of less than `SIZE` instead, such as 4G, for a stick with FAT")
	cli.Under("Parts", cmd.Flags())
	addOut(cmd.Flags(), &o.Out, "`FILE` of the ISO to write, or folder of the parts", &output)
	cli.AddProgress(cmd)
	return cmd
}

// partSize parses a size as split(1) does: 4G means 4 GiB. "" is 0.
func partSize(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	if strings.HasSuffix(s, "M") || strings.HasSuffix(s, "G") {
		s += "i"
	}
	n, err := bytesize.Parse(s)
	if err == nil && n == 0 {
		err = errors.New("no part can have less than 0 bytes")
	}
	if err != nil {
		return 0, cli.Usagef("--split: %v", err)
	}
	return n, nil
}

// splitResult is the result of `medium --split --output json`.
type splitResult struct {
	Path  string   `json:"path"`
	Parts []string `json:"parts"`
}

func printSplit(cmd *cobra.Command, output cli.Output, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	r := splitResult{Path: dir}
	for _, e := range entries {
		if _, is := layout.CutPart(e.Name()); is {
			r.Parts = append(r.Parts, e.Name())
		}
	}
	if !output.Text() {
		return output.Encode(cmd.OutOrStdout(), r)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: the store in %s\n", dir, cli.Plural(len(r.Parts), "part"))
	return err
}
