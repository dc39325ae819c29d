package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// errExists says that init would replace a file.
var errExists = fault.New(fault.Usage, "it exists already", "--overwrite replaces it; -o names another file")

// initFlags are the answers to the questions of init.
type initFlags struct {
	sources              sourceFlags
	name, platform, base string
	out                  string
	overwrite            bool
	output               cli.Output
}

func initCommand() *cobra.Command {
	f := initFlags{out: "appliance.yaml"}
	cmd := &cobra.Command{
		Use:   "init [-o appliance.yaml]",
		Short: "Write a first appliance file, with comments",
		Long: `init writes an appliance file with comments. On a terminal it asks for each of these
that no flag gives: the name, the platform, the kind of input, the input, and the live ISO.
Without a terminal it asks nothing, and needs --name and an input. It checks the file as
validate does, and writes none with a problem.`,
		Example: `  pinbox init
  pinbox init --name factory-12 --set sets/ --iso rhcos-live.iso`,
		Args: inputsByFlags,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.name, "name", "", "`NAME` of the appliance, which stays the same over its releases")
	flags.StringVar(&f.platform, "platform", "", "`PLATFORM` of the nodes (default linux/amd64)")
	cli.Words(flags, "platform", spec.Platforms()...)
	cli.Under("Appliance", flags)
	f.sources.add(flags)
	cli.Under("Inputs", flags)
	flags.StringVar(&f.base, "iso", "", "`FILE` of a CoreOS live ISO to put store and configuration into")
	cli.Files(flags, "iso", "iso")
	cli.Under("ISO", flags)
	flags.BoolVar(&f.overwrite, "overwrite", false, "replace a file that exists")
	addOut(flags, &f.out, "`FILE` to write", &f.output)
	return cli.Common(cmd, "name", "platform", "set", "image", "image-list", "manifests", "release",
		"oc-mirror", "oci", "archive", "iso", "overwrite", "out", "output")
}

func (f *initFlags) run(cmd *cobra.Command) error {
	if f.out == "" {
		return cli.Usagef("name the file to write with -o")
	}
	if _, err := os.Lstat(f.out); !f.overwrite && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w", f.out, errors.Join(err, errExists))
	}
	start := spec.Start{Name: f.name, Platform: pinset.Platform(f.platform), Sources: f.sources.entries(), Base: f.base}
	if questions := cli.NewQuestions(cmd); questions != nil {
		if err := f.ask(cmd.Context(), questions, &start, cmd.Flags().Changed("iso")); err != nil {
			return err
		}
	}
	var missing []string
	if start.Name == "" {
		missing = append(missing, "--name")
	}
	if len(start.Sources) == 0 {
		missing = append(missing, "an input, one of "+strings.Join(source.FlagNames(), ", "))
	}
	if missing != nil {
		return cli.Usagef("nothing is asked without a terminal: give %s", strings.Join(missing, " and "))
	}
	if start.Platform == "" {
		start.Platform = spec.DefaultPlatform
	}
	if err := errors.Join(spec.CheckName(start.Name), start.Platform.Validate()); err != nil {
		return cli.Usagef("%w", err)
	}
	content, err := start.Render(f.out)
	if err != nil {
		return err
	}
	file, err := spec.Parse(f.out, content)
	if err != nil {
		return err
	}
	wrong, err := check(cmd, file, builder.Options{Appliance: file.Appliance})
	if err != nil {
		return err
	}
	if len(wrong.Problems) > 0 {
		wrong.File = f.out + " is not written"
		return printChecked(cmd, f.output, wrong)
	}
	if _, err := atomicfile.Write(f.out, content, 0o644); err != nil {
		return err
	}
	if !f.output.Text() {
		return f.output.Encode(cmd.OutOrStdout(), struct {
			Path string `json:"path"`
		}{f.out})
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "wrote %s\nnext: pinbox validate %[1]s\n", f.out)
	return err
}

// ask asks for what no flag says.
func (f *initFlags) ask(ctx context.Context, q *cli.Questions, start *spec.Start, hasBase bool) (err error) {
	if start.Name == "" {
		if start.Name, err = q.Ask(ctx, "Name of the appliance", "", spec.CheckName); err != nil {
			return err
		}
	}
	if start.Platform == "" {
		answer, err := q.Ask(ctx, "Platform of the nodes", string(spec.DefaultPlatform), func(text string) error {
			return pinset.Platform(text).Validate()
		})
		if err != nil {
			return err
		}
		start.Platform = pinset.Platform(answer)
	}
	if len(start.Sources) == 0 {
		if start.Sources, err = askSource(ctx, q, start.Name, start.Platform); err != nil {
			return err
		}
	}
	if start.Base == "" && !hasBase {
		start.Base, err = q.Ask(ctx, "CoreOS live ISO to put it into, or nothing for no ISO", "", func(text string) error {
			if text == "" {
				return nil
			}
			base, err := iso.OpenBase(text)
			return errors.Join(err, base.Close())
		})
	}
	return err
}

// askSource asks for the kind of an input, and then for the input, until it can be read.
func askSource(
	ctx context.Context, q *cli.Questions, name string, platform pinset.Platform,
) ([]source.Entry, error) {
	kinds := source.Kinds()
	question := "Kinds of inputs"
	for i, k := range kinds {
		question += fmt.Sprintf("\n  %d  %s", i+1, k.Doc)
	}
	find := func(answer string) int {
		n, _ := strconv.Atoi(answer) // 0 if it is no number
		return n - 1
	}
	answer, err := q.Ask(ctx, question+"\nKind of the input that names the images", "1", func(text string) error {
		if i := find(text); i < 0 || i >= len(kinds) {
			return fmt.Errorf("want a number from 1 to %d", len(kinds))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	flag := kinds[find(answer)].Flags[0]
	words := map[string]string{"PATH": "File or folder", "NAME": "Full name"}
	word := words[flag.Value]
	if word == "" {
		word = flag.Value // FILE, or DIR[=NAME]
	}
	entries := func(value string) []source.Entry { return source.FromFlags(map[string][]string{flag.Name: {value}}) }
	value, err := q.Ask(ctx, word, "", func(text string) error {
		if text == "" {
			return errors.New("want an answer")
		}
		material, err := source.Read(ctx, entries(text), source.Options{Appliance: name, Platform: platform})
		if err != nil {
			return err
		}
		return material.Close()
	})
	if err != nil {
		return nil, err
	}
	return entries(value), nil
}
