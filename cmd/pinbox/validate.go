package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/fault"
)

// checked is the result of `validate --output json`.
type checked struct {
	File     string    `json:"file"`
	Problems []problem `json:"problems"`
	Warnings []string  `json:"warnings,omitempty"`
}

// problem is an error in an appliance file or in a file that it names.
type problem struct {
	spec.Problem
	Hint string `json:"hint,omitempty"`
}

func validateCommand() *cobra.Command {
	var in inputFlags
	var from []string
	cmd := &cobra.Command{
		Use:   "validate [appliance.yaml]",
		Short: "Check an appliance file, and every file that it names",
		Long: `validate checks the fields of an appliance file, and the files that it names: sets,
lists, manifests, archives, keys, Butane, the live ISO, its lock. It contacts no
registry, and writes nothing. It lists all problems at once, each with its line.
The exit code is 3 if there is one.`,
		Example: `  pinbox validate appliance.yaml
  pinbox validate appliance.yaml --from out/    # what a delta is made from, too`,
		Args: cobra.MaximumNArgs(1), ValidArgsFunction: cli.FileArgs(1, "yaml", "yml", "json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.config = "appliance.yaml"
			if len(args) > 0 {
				in.config = args[0]
			}
			result, err := validate(cmd, in, from)
			if err != nil {
				return err
			}
			return printChecked(cmd, in.output, result)
		},
	}
	addFrom(cmd.Flags(), &from)
	cmd.Flags().StringVar(&in.lock, "lock", "",
		"lock `FILE` of an earlier run (default: appliance.lock.json next to appliance.yaml, if it exists)")
	cli.Files(cmd.Flags(), "lock", "json")
	cli.Under("Lock", cmd.Flags())
	in.output.Add(cmd.Flags())
	return cmd
}

func validate(cmd *cobra.Command, in inputFlags, from []string) (result checked, err error) {
	file, err := spec.Open(in.config)
	result = checked{File: in.config, Problems: []problem{}}
	if wrong := (spec.Problems)(nil); errors.As(err, &wrong) {
		result.add(cmd, wrong)
		return result, nil
	}
	if err != nil {
		return result, err
	}
	o := builder.Options{Appliance: file.Appliance, From: from, NodeBinary: nodeBinary(file.Appliance.Spec.Platform)}
	_, unreadable := in.readLock()
	return check(cmd, file, o, unreadable)
}

// check checks an appliance file, and the files that it names. More are errors that are known.
func check(cmd *cobra.Command, file *spec.File, o builder.Options, more ...error) (result checked, err error) {
	result = checked{File: file.Path, Problems: []problem{}}
	result.Warnings, err = builder.Check(cmd.Context(), o)
	if ended := cmd.Context().Err(); ended != nil {
		return result, ended
	}
	result.add(cmd, file.Problems(errors.Join(append(more, err)...)))
	return result, nil
}

// add adds problems with their hints. A field that is wrong has that of the file.
func (c *checked) add(cmd *cobra.Command, problems spec.Problems) {
	program := cli.Program{Root: cmd.Root(), System: systemErrors}
	for _, p := range problems {
		f := program.Find(p)
		if f.Hint == "" {
			f = program.Find(spec.ErrAppliance)
		}
		c.Problems = append(c.Problems, problem{p, f.Hint})
	}
}

func printChecked(cmd *cobra.Command, output cli.Output, c checked) error {
	if !output.Text() {
		if err := output.Encode(cmd.OutOrStdout(), c); err != nil {
			return err
		}
	} else {
		printWarnings(cmd, c.Warnings)
		out := cmd.OutOrStdout()
		for i, p := range c.Problems {
			fmt.Fprintln(out, p.Error())
			if i+1 == len(c.Problems) || c.Problems[i+1].Hint != p.Hint { // once for several
				fmt.Fprintf(out, "  hint: %s\n", p.Hint)
			}
		}
		next := "; next: pinbox plan -c " + c.File
		if len(c.Problems) > 0 {
			next = ""
		}
		if _, err := fmt.Fprintf(out, "%s: %s%s\n", c.File, cli.Plural(len(c.Problems), "problem"), next); err != nil {
			return err
		}
	}
	if len(c.Problems) > 0 {
		return cli.Reported(fault.Input)
	}
	return nil
}
