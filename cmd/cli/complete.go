package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wordsKey is the annotation of a flag with the words that it takes.
const wordsKey = "pinbox_words"

// Files makes a shell complete the value of a flag with folders, and with files whose names
// have one of these endings. It panics if the flag does not exist.
func Files(flags *pflag.FlagSet, name string, endings ...string) {
	annotate(flags.Lookup(name), cobra.BashCompFilenameExt, endings...)
}

// Words makes a shell complete the value of a flag with these words.
func Words(flags *pflag.FlagSet, name string, words ...string) {
	annotate(flags.Lookup(name), wordsKey, words...)
}

// FileArgs completes up to max arguments with folders, and with files whose names have one of
// these endings. Without endings it offers only folders.
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

// completeAll registers the completions of a command and its subcommands with cobra. Unless Files,
// Words or the command set another one, the placeholder in a flag's usage decides: DIR is completed
// with folders, FILE, PATH and DISK with files, any other value and arguments with nothing.
func completeAll(cmd *cobra.Command) {
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = cobra.NoFileCompletions
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		placeholder, _ := pflag.UnquoteUsage(f)
		switch placeholder, _, _ = strings.Cut(placeholder, "["); placeholder {
		case "DIR":
			annotate(f, cobra.BashCompSubdirsInDir)
		case "FILE", "PATH", "DISK": // cobra's default
		default:
			complete := cobra.FixedCompletions(f.Annotations[wordsKey], cobra.ShellCompDirectiveNoFileComp)
			_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // fails only for a flag that has one
		}
	})
	for _, c := range cmd.Commands() {
		completeAll(c)
	}
}
