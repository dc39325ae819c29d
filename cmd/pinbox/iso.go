package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/iso"
)

// isoFlags say which live ISO to start from, over what the appliance file says.
type isoFlags struct {
	base                    string
	force                   bool
	append, delete, replace []string
}

func (f *isoFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.base, "iso", "", "CoreOS live ISO to put store and configuration into")
	flags.BoolVar(&f.force, "force", false, "replace an Ignition config that the ISO has already")
	flags.StringArrayVar(&f.append, "kargs-append", nil, "kernel argument to append; may be repeated")
	flags.StringArrayVar(&f.delete, "kargs-delete", nil, "kernel argument to delete; may be repeated")
	flags.StringArrayVar(&f.replace, "kargs-replace", nil, "kernel argument to replace, as key=old=new; may be repeated")
}

func (f *isoFlags) apply(spec *builder.ISOSpec) {
	if f.base != "" {
		spec.Base = f.base
	}
	spec.Force = spec.Force || f.force
	k := &spec.KernelArguments
	k.Append, k.Delete, k.Replace = append(k.Append, f.append...), append(k.Delete, f.delete...), append(k.Replace, f.replace...)
}

func isoCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "iso", Short: "Look into live ISOs, and bring their bases back"}
	cmd.AddCommand(isoShowCommand(), isoResetCommand(), isoExtractCommand())
	return cmd
}

func isoShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show image.iso",
		Short: "Show label, Ignition area, kernel arguments, and what pinbox added",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			image, f, err := iso.OpenFile(args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			info, err := image.Info()
			if err != nil {
				return err
			}
			return printISO(cmd, output, info)
		},
	}
	addOutput(cmd.Flags(), &output)
	return cmd
}

func isoResetCommand() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "reset appliance.iso -o pristine.iso",
		Short: "Write the base of an ISO, byte for byte as it was",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if out == "" {
				return usageError{errors.New("name the file to write with -o")}
			}
			return iso.Reset(cmd.Context(), args[0], out)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "file to write")
	return cmd
}

func isoExtractCommand() *cobra.Command {
	var ignition, store, lock bool
	cmd := &cobra.Command{
		Use:   "extract appliance.iso {--ignition | --store | --lock} > file",
		Short: "Write a part of an ISO to standard output",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fi, err := os.Stdout.Stat(); store && err == nil && fi.Mode()&os.ModeCharDevice != 0 && cmd.OutOrStdout() == os.Stdout {
				return usageError{errors.New("a store is no text: send it to a file or a pipe")}
			}
			switch {
			case ignition && !store && !lock:
				return builder.ExtractIgnition(args[0], cmd.OutOrStdout())
			case store && !ignition && !lock:
				return builder.ExtractStore(args[0], cmd.OutOrStdout())
			case lock && !ignition && !store:
				return builder.ExtractLock(args[0], cmd.OutOrStdout())
			}
			return usageError{errors.New("give one of --ignition, --store and --lock")}
		},
	}
	cmd.Flags().BoolVar(&ignition, "ignition", false, "the Ignition config")
	cmd.Flags().BoolVar(&store, "store", false, "the image store, a squashfs")
	cmd.Flags().BoolVar(&lock, "lock", false, "the lock")
	return cmd
}
