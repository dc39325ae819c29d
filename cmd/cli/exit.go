package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

// Exit codes. README.md documents them for pinbox, docs/node.md for pinbox-node.
const (
	ExitOK          = 0
	ExitOther       = 1
	ExitUsage       = 2
	ExitInput       = 3
	ExitDamaged     = 4
	ExitSpace       = 5
	ExitRegistry    = 6
	ExitBusy        = 7
	ExitInterrupted = 130 // 128 + SIGINT, as in shells
)

// Row has the exit code of an error, and a hint what to do. It is an alias of an unnamed type,
// because go vet demands field names in literals of a named type of another package.
type Row = struct {
	Err  error
	Code int
	// Number is that of the error in its program: each has its own, and keeps it.
	Number int
	Hint   string
}

// Host stands in a hint for the host, with its port, that an error names with its method Host.
const Host = "HOST[:PORT]"

// usageError is an error of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Usagef makes an error of the command line, as fmt.Errorf makes others.
func Usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// Reported is the error of a command that has already printed what is wrong: its exit code.
type Reported int

func (r Reported) Error() string { return fmt.Sprintf("exit code %d", int(r)) }

// Failure is an error as it is printed for programs.
type Failure struct {
	Error string `json:"error"`
	Hint  string `json:"hint,omitempty"`
	Code  int    `json:"exitCode"`
	// ID is the code of the error in docs/errors.md.
	ID string `json:"code,omitempty"`
}

// keptKey is the annotation of a command with what an interruption leaves.
const keptKey = "pinbox_kept"

// Interrupted sets the hint of a command that is interrupted: what is kept, and how to go on.
func Interrupted(cmd *cobra.Command, kept string) {
	cmd.Annotations = map[string]string{keptKey: kept}
}

// explain finds the hint and the exit code of an error of a command.
func (p Program) explain(cmd *cobra.Command, err error) Failure {
	if errors.As(err, &usageError{}) {
		name := p.Root.Name()
		hint := fmt.Sprintf("`%s --help` shows the commands, `%s COMMAND --help` the flags", name, name)
		return Failure{Error: strings.TrimSpace(err.Error()), Hint: hint, Code: ExitUsage}
	}
	if errors.Is(err, context.Canceled) {
		kept := cmp.Or(cmd.Annotations[keptKey], "no incomplete result was left; run the command again")
		return Failure{"interrupted", kept, ExitInterrupted, ""}
	}
	return p.Find(err)
}

// Find finds the hint and the exit code of an error in the table.
func (p Program) Find(err error) Failure {
	for _, row := range p.Rows {
		if errors.Is(err, row.Err) {
			hint := row.Hint
			if named := (interface{ Host() string })(nil); errors.As(err, &named) {
				hint = strings.ReplaceAll(hint, Host, named.Host())
			}
			return Failure{strings.TrimSpace(err.Error()), hint, row.Code, p.id(row)}
		}
	}
	return Failure{Error: strings.TrimSpace(err.Error()), Code: ExitOther}
}

// report prints an error and its hint, and returns the exit code.
func (p Program) report(stderr io.Writer, cmd *cobra.Command, err error) int {
	if code := Reported(0); errors.As(err, &code) {
		return int(code)
	}
	f := p.explain(cmd, err)
	if !outputOf(cmd.Flags()).Text() {
		_ = json.NewEncoder(stderr).Encode(f) // the error cannot be reported elsewhere
		return f.Code
	}
	fmt.Fprintf(stderr, "%s: %s\n", p.Root.Name(), f.Error)
	switch {
	case f.Hint != "" && f.ID != "":
		fmt.Fprintf(stderr, "hint: %s [%s]\n", f.Hint, f.ID)
	case f.Hint != "":
		fmt.Fprintf(stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}
