package cli

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wordsKey is the annotation of a flag with the words that it takes.
const wordsKey = "pinbox_words"

// Files has a shell complete the value of a flag by folders, and by files whose names have
// one of these endings. It panics if there is no such flag.
func Files(flags *pflag.FlagSet, name string, endings ...string) {
	annotate(flags.Lookup(name), cobra.BashCompFilenameExt, endings...)
}

// Folders has a shell complete the values of flags by folders.
func Folders(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags.Lookup(name), cobra.BashCompSubdirsInDir)
	}
}

// Words has a shell complete the value of a flag by words, or by nothing if there are none.
func Words(flags *pflag.FlagSet, name string, words ...string) {
	annotate(flags.Lookup(name), wordsKey, words...)
}

// FileArgs completes up to max arguments by folders, and by files whose names have one of
// these endings; by folders alone without endings.
func FileArgs(max int, endings ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch {
		case len(args) >= max:
			return nil, cobra.ShellCompDirectiveNoFileComp
		case len(endings) == 0:
			return nil, cobra.ShellCompDirectiveFilterDirs
		}
		return endings, cobra.ShellCompDirectiveFilterFileExt
	}
}

// completeAll gives the flags and arguments of a command, and of those below it, their
// completions. What nobody has described is completed by nothing if it is a number or an
// argument, and else by files.
func completeAll(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		words, described := f.Annotations[wordsKey]
		switch f.Value.Type() {
		case "duration", "int":
			described = true
		}
		if described { // the flag is there, and has no other completion
			complete := cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete)
		}
	})
	for _, c := range cmd.Commands() {
		completeAll(c)
	}
}
