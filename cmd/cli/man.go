package cli

import (
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manCommand writes the man pages of a program, for its package: of the program and of each command. It is hidden,
// since only `make release` calls it. SOURCE_DATE_EPOCH is the date of the pages.
func manCommand() *cobra.Command {
	return &cobra.Command{
		Use: "man DIR", Hidden: true, Args: cobra.ExactArgs(1), ValidArgsFunction: FileArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.InitDefaultHelpCmd()
			return doc.GenManTree(root, &doc.GenManHeader{
				Section: "1", Source: root.Name() + " " + root.Version, Manual: "User Commands",
			}, args[0])
		},
	}
}
