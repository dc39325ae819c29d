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

	"github.com/pinbox/pinbox/storage/fault"
)

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
		return Failure{Error: strings.TrimSpace(err.Error()), Hint: hint, Code: fault.Usage}
	}
	if errors.Is(err, context.Canceled) {
		kept := cmp.Or(cmd.Annotations[keptKey], "no incomplete result was left; run the command again")
		return Failure{"interrupted", kept, fault.Interrupted}
	}
	return p.Find(err)
}

// Find finds the hint and the exit code of an error.
func (p Program) Find(err error) Failure {
	f := Failure{Error: strings.TrimSpace(err.Error()), Code: fault.Other}
	if e := fault.Of(err); e != nil {
		f.Hint, f.Code = e.Hint, e.Exit
		return f
	}
	for _, s := range p.System {
		if errors.Is(err, s.Err) {
			f.Hint, f.Code = s.Hint, s.Code
			return f
		}
	}
	return f
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
	Word(stderr, Red, p.Root.Name()+":")
	fmt.Fprintf(stderr, " %s\n", f.Error)
	if f.Hint != "" {
		fmt.Fprintf(stderr, "hint: %s\n", f.Hint)
	}
	return f.Code
}
