package cli

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Prefixes of the codes of errors, by programs.
var prefixes = map[string]string{"pinbox": "PBX", "pinbox-node": "PBN"}

// id is the code by which docs/errors.md lists a row, such as PBX-3-014: of the program, the exit code and the number.
// It stays with the error.
func (p Program) id(row Row) string {
	return fmt.Sprintf("%s-%d-%03d", cmp.Or(prefixes[p.Root.Name()], "ERR"), row.Code, row.Number)
}

// errorsCommand prints the table of errors for docs/errors.md. It is hidden, since only `make golden` calls it.
func (p Program) errorsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "errors", Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows := slices.Clone(p.Rows)
			slices.SortFunc(rows, func(a, b Row) int { return cmp.Or(a.Code-b.Code, a.Number-b.Number) })
			var b strings.Builder
			b.WriteString("| code | error | what to do |\n|---|---|---|\n")
			for _, row := range rows {
				if row.Hint != "" {
					fmt.Fprintf(&b, "| `%s` | %s | %s |\n", p.id(row), cell(row.Err.Error()), cell(row.Hint))
				}
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), b.String())
			return err
		},
	}
}

// cell is text in a table of Markdown.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "\n", " ").Replace(text)
}
