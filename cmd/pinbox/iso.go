package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/layout"
)

// isoFlags are the flags of the base ISO. They override the appliance file.
type isoFlags struct {
	base, installDevice     string
	replaceConfig, merge    bool
	append, delete, replace []string
}

func (f *isoFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.base, "iso", "", "`FILE` of a CoreOS live ISO to put store and configuration into")
	cli.Files(flags, "iso", "iso")
	flags.StringVar(&f.installDevice, "install-device", "",
		"`DISK` that the ISO overwrites to install CoreOS and the store; without it the node runs from the ISO")
	flags.BoolVar(&f.replaceConfig, "replace-config", false, "replace an Ignition config that the ISO has already")
	flags.BoolVar(&f.merge, "merge", false, "merge the configuration into an Ignition config that the ISO has already")
	flags.StringArrayVar(&f.append, "kargs-append", nil,
		"kernel `ARGUMENT` of the live system to append; may be repeated")
	flags.StringArrayVar(&f.delete, "kargs-delete", nil,
		"kernel `ARGUMENT` of the live system to delete; may be repeated")
	flags.StringArrayVar(&f.replace, "kargs-replace", nil,
		"kernel argument of the live system to replace, as `KEY=OLD=NEW`; may be repeated")
	cli.Under("ISO", flags)
}

// apply adds the flags to the appliance file. A flag with an empty value is an error: in a script
// it comes from a variable that is not set.
func (f *isoFlags) apply(flags *pflag.FlagSet, iso *spec.ISO) error {
	for _, name := range []string{"iso", "install-device"} {
		if given := flags.Lookup(name); given.Changed && given.Value.String() == "" {
			return cli.Usagef("--%s is empty", name)
		}
	}
	if f.base != "" {
		iso.Base = f.base
	}
	if f.installDevice != "" {
		iso.Mode, iso.InstallDevice = spec.ModeInstall, f.installDevice
	}
	switch {
	case f.replaceConfig && f.merge:
		return cli.Usagef("give one of --replace-config and --merge")
	case f.replaceConfig:
		iso.Existing = spec.ExistingReplace
	case f.merge:
		iso.Existing = spec.ExistingMerge
	}
	k := &iso.KernelArguments
	k.Append, k.Delete, k.Replace = append(k.Append, f.append...), append(k.Delete, f.delete...),
		append(k.Replace, f.replace...)
	return nil
}

func isoCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "iso", Short: "Take a live ISO apart", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return cli.Usagef("give extract")
		},
	}
	cmd.AddCommand(isoExtractCommand())
	return cmd
}

func isoExtractCommand() *cobra.Command {
	var ignition, store, lock bool
	var pxe string
	cmd := &cobra.Command{
		Use:   "extract appliance.iso {--ignition | --store | --lock} > file",
		Short: "Write a part of an ISO, or the files that boot it from a network",
		Example: `  pinbox iso extract appliance.iso --ignition > config.ign
  pinbox iso extract appliance.iso --pxe pxe/`,
		Args: cobra.ExactArgs(1), ValidArgsFunction: cli.FileArgs(1, "iso"),
		RunE: func(cmd *cobra.Command, args []string) error {
			stdout, isTerminal := cli.Content(cmd.OutOrStdout())
			if store && isTerminal {
				return cli.Usagef("a store is binary: write it to a file or a pipe")
			}
			switch {
			case pxe != "" && !ignition && !store && !lock:
				return extractPXE(cmd, args[0], pxe)
			case pxe != "":
			case ignition && !store && !lock:
				return artifact.Extract(cmd.Context(), args[0], artifact.IgnitionFile, stdout)
			case store && !ignition && !lock:
				return artifact.Extract(cmd.Context(), args[0], layout.MediumStore, stdout)
			case lock && !ignition && !store:
				return artifact.Extract(cmd.Context(), args[0], layout.MediumLock, stdout)
			}
			return cli.Usagef("give one of --ignition, --store, --lock and --pxe")
		},
	}
	cmd.Flags().BoolVar(&ignition, "ignition", false, "write the Ignition config")
	cmd.Flags().BoolVar(&store, "store", false, "write the image store, a squashfs")
	cmd.Flags().BoolVar(&lock, "lock", false, "write the lock, as JSON")
	cmd.Flags().StringVar(&pxe, "pxe", "",
		"make `DIR` with kernel, ramdisks, Ignition config, and examples for iPXE and GRUB")
	cli.Under("Parts", cmd.Flags())
	cli.AddProgress(cmd)
	return cmd
}

func extractPXE(cmd *cobra.Command, name, dir string) error {
	progress := cli.NewProgress(cmd, "")
	names, err := artifact.ExtractPXE(cmd.Context(), name, dir, hooks(progress))
	progress.Close()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", dir, strings.Join(names, ", "))
	return err
}
