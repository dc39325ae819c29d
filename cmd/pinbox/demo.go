package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/atomicfile"
)

func demoCommand() *cobra.Command {
	var out, base string
	cmd := &cobra.Command{
		Use:   "demo [-o demo/] [--iso rhcos-live.iso]",
		Short: "Plan, build and verify an appliance of sample images, with nothing else needed",
		Args:  cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return demo(cmd, out, base) },
	}
	cmd.Flags().StringVarP(&out, "out", "o", "demo", "folder to make")
	cmd.Flags().StringVar(&base, "iso", "", "CoreOS live ISO to put store and configuration into")
	return cmd
}

func demo(cmd *cobra.Command, out, base string) error {
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s: %w", out, builder.ErrNotEmpty)
	}
	program, err := os.ReadFile(besidePinbox("pinbox-node"))
	if err != nil {
		return fmt.Errorf("%w: %w", builder.ErrNodeBinary, err)
	}
	registry, pins, err := sample.Start(cmd.Context(), program)
	if err != nil {
		return err
	}
	defer registry.Close()
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	sets, appliance := filepath.Join(out, "sets.yaml"), filepath.Join(out, "appliance")
	if _, err := atomicfile.Write(sets, pins.Sets(), 0o644); err != nil {
		return err
	}
	build := []string{"build", "--set", sets, "--tls-verify=false", "--no-cache", "-o", appliance}
	if base != "" {
		build = append(build, "--iso", base)
	}
	for _, args := range [][]string{{"plan", "--set", sets, "--tls-verify=false"}, build, {"verify", appliance}} {
		fmt.Fprintf(cmd.OutOrStdout(), "$ pinbox %s\n", strings.Join(args, " "))
		if code := run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr()); code != exitOK {
			return reported(code)
		}
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s stays; the registry of its images ends here, so plan and build cannot be repeated on it\n", out)
	return err
}
