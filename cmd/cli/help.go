package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// headingKey is the annotation of a flag with its heading in the help.
const headingKey = "pinbox_heading"

// rareKey is the annotation of a flag that the help shows with --all only.
const rareKey = "pinbox_rare"

// general is the heading of flags that every command has.
const general = "General"

// helpWidth is the number of columns for the usage of flags: a console has at least 80.
const helpWidth = 80

// Under puts the flags of a set that have no heading in the help yet under this one.
func Under(heading string, flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[headingKey] == nil {
			annotate(f, headingKey, heading)
		}
	})
}

// Common names the flags of a command that its help shows; all of them are shown with --all. It is called after all
// flags are added.
func Common(cmd *cobra.Command, names ...string) *cobra.Command {
	flags := cmd.Flags()
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(names, f.Name) {
			annotate(f, rareKey)
		}
	})
	if flags.Lookup("all") == nil {
		flags.Bool("all", false, "with --help, show all flags")
		Under(general, flags)
	}
	return cmd
}

func annotate(f *pflag.Flag, key string, values ...string) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[key] = values
}

// Group adds commands to a program under a heading of its help.
func Group(root *cobra.Command, heading string, commands ...*cobra.Command) {
	if !root.ContainsGroup(heading) {
		root.AddGroup(&cobra.Group{ID: heading, Title: heading + ":"})
	}
	for _, c := range commands {
		c.GroupID = heading
	}
	root.AddCommand(commands...)
}

// addGeneral adds the flags and commands that every program has. cobra would add them with its
// own descriptions.
func addGeneral(root *cobra.Command) {
	Group(root, "Help")
	root.SetHelpCommandGroupID("Help")
	root.SetCompletionCommandGroupID("Help")
	root.PersistentFlags().BoolP("help", "h", false, "show this help and do nothing else")
	if root.Version != "" {
		root.Flags().BoolP("version", "v", false, "show the version and do nothing else")
	}
	Under(general, root.PersistentFlags())
	Under(general, root.Flags())
	root.AddCommand(manCommand())
	root.SetUsageFunc(usage)
}

// usage prints how a command is called, its commands in their groups, and its flags under
// their headings. cobra's own function prints all flags in one list.
func usage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	line := cmd.UseLine()
	if cmd.HasAvailableSubCommands() {
		line = cmd.CommandPath() + " COMMAND"
	}
	fmt.Fprintf(w, "Usage:\n  %s\n", line)
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		commands(w, cmd)
	}
	all, _ := cmd.Flags().GetBool("all") // an error means that it has none
	more := 0
	for _, set := range headings(cmd) {
		shown := pflag.NewFlagSet(set.Name(), pflag.ContinueOnError)
		shown.SortFlags = false
		set.VisitAll(func(f *pflag.Flag) {
			if _, rare := f.Annotations[rareKey]; rare && !all {
				more++
				return
			}
			shown.AddFlag(f)
		})
		if shown.HasFlags() {
			fmt.Fprintf(w, "\n%s:\n%s", set.Name(), shown.FlagUsagesWrapped(helpWidth))
		}
	}
	if more > 0 {
		fmt.Fprintf(w, "\n`%s --help --all` shows %d more flags.\n", cmd.CommandPath(), more)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n`%s COMMAND --help` shows the flags of a command.\n", cmd.CommandPath())
	}
	return nil
}

// commands prints the commands below one, in their groups if it has some.
func commands(w io.Writer, cmd *cobra.Command) {
	groups := cmd.Groups()
	if len(groups) == 0 {
		groups = []*cobra.Group{{Title: "Commands:"}}
	}
	for _, group := range groups {
		fmt.Fprintf(w, "\n%s\n", group.Title)
		for _, c := range cmd.Commands() {
			if c.GroupID == group.ID && (c.IsAvailableCommand() || c.Name() == "help") {
				fmt.Fprintf(w, "  %-*s  %s\n", c.NamePadding(), c.Name(), c.Short)
			}
		}
	}
}

// headings returns the flags of a command by their headings, in the order in which they were
// added; the flags that all commands have come last.
func headings(cmd *cobra.Command) (sets []*pflag.FlagSet) {
	cmd.InheritedFlags() // adds inherited flags to cmd.Flags()
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		heading := strings.Join(f.Annotations[headingKey], "")
		if heading == "" {
			heading = general
		}
		at := slices.IndexFunc(sets, func(s *pflag.FlagSet) bool { return s.Name() == heading })
		if at < 0 {
			at = len(sets)
			set := pflag.NewFlagSet(heading, pflag.ContinueOnError)
			set.SortFlags = false
			sets = append(sets, set)
		}
		sets[at].AddFlag(f)
	})
	return sets
}
