package cli

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
)

// Program is a command line and the table of its errors.
type Program struct {
	Root *cobra.Command
	// Rows give errors their exit codes and hints. The first one that matches counts, so
	// causes stand before their effects. The code of other errors is ExitOther.
	Rows []Row
}

// Run executes the command that args name and reports its error. It returns the exit code.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	began := false
	p.Root.SilenceUsage, p.Root.SilenceErrors = true, true
	p.Root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	addGeneral(p.Root)
	p.Root.AddCommand(p.errorsCommand())
	completeAll(p.Root)
	p.Root.SetArgs(args)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdout, stderr = printable{stdout, cancel}, printable{stderr, cancel}
	p.Root.SetOut(stdout)
	p.Root.SetErr(stderr)
	command, err := p.Root.ExecuteContextC(ctx)
	if err == nil {
		return ExitOK
	}
	reported := Reported(0)
	switch {
	case !began: // flags, arguments, or the name of the command
		err = usageError{err}
	case ctx.Err() != nil && !errors.As(err, &reported): // gRPC's error does not wrap context.Canceled
		err = ctx.Err()
	}
	return p.report(stderr, command, err)
}
