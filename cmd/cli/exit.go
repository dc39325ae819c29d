package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
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
	Hint string
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
}

// explain finds the hint and the exit code of an error.
func (p Program) explain(err error) Failure {
	if errors.As(err, &usageError{}) {
		name := p.Root.Name()
		hint := fmt.Sprintf("`%s --help` shows the commands, `%s COMMAND --help` the flags", name, name)
		return Failure{Error: strings.TrimSpace(err.Error()), Hint: hint, Code: ExitUsage}
	}
	if errors.Is(err, context.Canceled) {
		return Failure{"interrupted", "no incomplete result was left; run the command again", ExitInterrupted}
	}
	for _, row := range p.Rows {
		if errors.Is(err, row.Err) {
			hint := row.Hint
			if named := (interface{ Host() string })(nil); errors.As(err, &named) {
				hint = strings.ReplaceAll(hint, Host, named.Host())
			}
			return Failure{strings.TrimSpace(err.Error()), hint, row.Code}
		}
	}
	return Failure{Error: strings.TrimSpace(err.Error()), Code: ExitOther}
}

// report prints an error and its hint, and returns the exit code.
func (p Program) report(stderr io.Writer, err error, output Output) int {
	if code := Reported(0); errors.As(err, &code) {
		return int(code)
	}
	f := p.explain(err)
	if !output.Text() {
		_ = json.NewEncoder(stderr).Encode(f) // the error cannot be reported elsewhere
		return f.Code
	}
	fmt.Fprintf(stderr, "%s: %s\n", p.Root.Name(), f.Error)
	if f.Hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}
