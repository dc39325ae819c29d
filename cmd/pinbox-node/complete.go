package main

import (
	"cmp"

	"github.com/opencontainers/go-digest"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/runtime/stores"
)

// anyFile completes an argument with files, the shell's default.
func anyFile(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveDefault
}

// attachedStores completes an argument with the slots, names and digests of the attached stores. An
// error is not shown, since it would disturb the command line.
func (f *nodeFlags) attachedStores(
	cmd *cobra.Command, args []string, _ string,
) (words []cobra.Completion, _ cobra.ShellCompDirective) {
	all, err := f.open().Stores(cmd.Context())
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range all {
		if s.State == runtime.StoreRefused { // it is not attached
			continue
		}
		short := stores.Short(digest.Digest(s.Digest))
		words = append(words, cobra.CompletionWithDesc(s.Slot, "slot of "+cmp.Or(s.Name, short)))
		if s.Name != "" {
			words = append(words, cobra.CompletionWithDesc(s.Name, "name of "+short))
		}
		words = append(words, cobra.CompletionWithDesc(short, "digest in slot "+s.Slot))
	}
	return words, cobra.ShellCompDirectiveNoFileComp
}
