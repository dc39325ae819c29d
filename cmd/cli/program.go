package cli

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/storage/fault"
)

// Program is a command line.
type Program struct {
	Root *cobra.Command
	// System has the exit codes and hints of errors of the operating system that are no cause of one by package fault.
	// The first one that matches counts. The code of other errors is fault.Other.
	System []SystemError
}

// SystemError is an error of the operating system. It is an alias of an unnamed type, because go vet demands field
// names in literals of a named type of another package.
type SystemError = struct {
	Err  error
	Code int
	Hint string
}

// Run executes the command that args name and reports its error. It returns the exit code.
func (p Program) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	began := false
	for _, arg := range args { // its errors name it, and would have lines that somebody else chose
		if strings.Contains(arg, "\n") {
			return p.report(printable{Writer: stderr, errors: true, unread: func() {}}, p.Root,
				Usagef("the argument %q has a line feed", arg))
		}
	}
	p.Root.SilenceUsage, p.Root.SilenceErrors = true, true
	p.Root.PersistentPreRun = func(*cobra.Command, []string) { began = true }
	addGeneral(p.Root)
	completeAll(p.Root)
	p.Root.SetArgs(args)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var unread atomic.Bool
	var unwritten atomic.Pointer[error]
	stdout = printable{
		Writer: stdout, unread: func() { unread.Store(true); cancel() },
		failed: func(err error) { unwritten.CompareAndSwap(nil, &err) },
	}
	stderr = printable{Writer: stderr, errors: true, unread: cancel}
	p.Root.SetOut(stdout)
	p.Root.SetErr(stderr)
	command, err := p.Root.ExecuteContextC(ctx)
	if lost := unwritten.Load(); lost != nil && (err == nil || !began) { // of a help, or of the version
		return p.report(stderr, command, *lost)
	}
	if err == nil {
		return fault.OK
	}
	if unread.Load() {
		return fault.Unread
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
