package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// variable is the environment variable of a flag of a program: PINBOX_SIGN_KEY for --sign-key of pinbox.
func variable(program, flag string) string {
	return strings.ToUpper(strings.ReplaceAll(program+"_"+flag, "-", "_"))
}

// fromEnvironment sets the flags of a command that the command line does not have from their variables, as if the
// command line had them: they override files, too. A variable that is empty is as one that is not set.
func fromEnvironment(cmd *cobra.Command) (err error) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		name := variable(cmd.Root().Name(), f.Name)
		value := os.Getenv(name)
		if err != nil || f.Changed || value == "" || f.Name == "help" || f.Name == "version" {
			return
		}
		if failed := cmd.Flags().Set(f.Name, value); failed != nil {
			err = Usagef("%s: %w", name, failed)
		}
	})
	return err
}
