package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	demoimages "github.com/pinbox/pinbox/builder/demo"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/fault"
)

func demoCommand() *cobra.Command {
	var out, base string
	cmd := &cobra.Command{
		Use:     "demo [-o demo/] [--iso rhcos-live.iso]",
		Short:   "Plan, build and verify an appliance of sample images, and a delta to its next release",
		Example: "  pinbox demo -o demo/",
		Args:    cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd, out, base) },
	}
	cmd.Flags().StringVar(&base, "iso", "", "`FILE` of a CoreOS live ISO to put store and configuration into")
	cli.Files(cmd.Flags(), "iso", "iso")
	cli.Under("ISO", cmd.Flags())
	cmd.Flags().StringVarP(&out, "out", "o", "demo", "`DIR` to make")
	cli.Under("Output", cmd.Flags())
	return cmd
}

func demo(cmd *cobra.Command, out, base string) error {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fault.New(fault.Usage, out+": output folder is not empty", "choose another folder with -o, or remove this one")
	}
	program, err := os.ReadFile(nodeBinary(""))
	if err != nil {
		return fault.With(fmt.Errorf("pinbox-node cannot be used: %w", err), fault.Input,
			"install the package pinbox-node; in a checkout, `make` builds it next to pinbox")
	}
	images, next := filepath.Join(out, "images"), filepath.Join(out, "next")
	if err := errors.Join(demoimages.Write(images, "1.0", program), demoimages.Write(next, "1.1", program)); err != nil {
		return err
	}
	appliance, delta := filepath.Join(out, "appliance"), filepath.Join(out, "delta")
	build := []string{"build", "--oci", images, "--no-cache", "-o", appliance}
	if base != "" {
		build = append(build, "--iso", base)
	}
	for _, args := range [][]string{
		{"plan", "--oci", images}, build, {"verify", appliance},
		{"delta", "--from", appliance, "--oci", next, "--no-cache", "-o", delta}, {"verify", delta, "--base", appliance},
	} {
		fmt.Fprintf(cmd.OutOrStdout(), "$ pinbox %s\n", strings.Join(args, " "))
		if code := run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr()); code != fault.OK {
			return cli.Reported(code)
		}
	}
	return nil
}
