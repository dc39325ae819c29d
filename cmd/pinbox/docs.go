package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/cmd/cli"
	"github.com/pinbox/pinbox/docs"
	"github.com/pinbox/pinbox/storage/fault"
)

func docsCommand() *cobra.Command {
	const ending = ".md"
	return &cobra.Command{
		Use:     "docs [PAGE]",
		Short:   "Show a page of the documentation; without PAGE, list them",
		Example: "  pinbox docs\n  pinbox docs slow-link | less",
		Args:    cobra.MaximumNArgs(1), ValidArgs: documents(ending),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return show(cmd, args[0], ending)
			}
			w := cli.Table(cmd.OutOrStdout())
			for _, name := range documents(ending) {
				page, err := docs.Files.ReadFile(name + ending)
				if err != nil {
					return err
				}
				title, _, _ := strings.Cut(string(page), "\n")
				fmt.Fprintf(w, "%s\t%s\n", name, strings.TrimLeft(title, "# "))
			}
			return w.Flush()
		},
	}
}

func schemaCommand() *cobra.Command {
	const ending = ".schema.json"
	return &cobra.Command{
		Use:     "schema NAME",
		Short:   "Show a JSON schema: " + strings.Join(documents(ending), " or "),
		Long:    "schema shows the JSON schema of appliance files, or of the lines of --progress=json.",
		Example: "  pinbox schema appliance >appliance.schema.json    # for an editor",
		Args:    cobra.ExactArgs(1), ValidArgs: documents(ending),
		RunE: func(cmd *cobra.Command, args []string) error { return show(cmd, args[0], ending) },
	}
}

// registriesTopic is `pinbox help registries`: flags that all commands with inputs have, and show with --all.
func registriesTopic() *cobra.Command {
	topic := &cobra.Command{
		Use: "registries", Hidden: true, Args: cobra.NoArgs, // and no command: it shows its help
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Long: `These flags are those of all commands that read images: plan, build, delta, lock. Their
own help shows them with --all. "pinbox docs registries" is the page about registries,
their credentials, mirrors and certificates.`,
	}
	new(inputFlags).addAccess(topic.Flags())
	return topic
}

// documents are the names of those files of the documentation that have an ending, without it.
func documents(ending string) []string {
	all, err := fs.Glob(docs.Files, "*"+ending)
	if err != nil {
		panic("pattern of documents: " + err.Error()) // it is constant
	}
	for i := range all {
		all[i] = strings.TrimSuffix(all[i], ending)
	}
	return all
}

// show prints a document by its name, with or without the ending.
func show(cmd *cobra.Command, name, ending string) error {
	content, err := docs.Files.ReadFile(strings.TrimSuffix(name, ending) + ending)
	if err != nil {
		return fault.New(fault.Usage, fmt.Sprintf("no document %q", name), "choose one of: "+
			strings.Join(documents(ending), ", "))
	}
	_, err = cmd.OutOrStdout().Write(content)
	return err
}
