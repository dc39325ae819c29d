package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// Secret asks for a secret on the terminal that a command reads from, which does not show what is typed. asked is false
// if it reads from none.
func Secret(cmd *cobra.Command, question string) (secret []byte, asked bool, err error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return nil, false, nil
	}
	before, err := term.MakeRaw(int(in.Fd())) // before the question: what is typed early is not shown either
	if err != nil {
		return nil, false, err
	}
	defer func() {
		err = errors.Join(err, term.Restore(int(in.Fd()), before))
		fmt.Fprintln(printable{Writer: in, unread: func() {}}) // stdout and stderr may be files
	}()
	typed, failed := make(chan string, 1), make(chan error, 1)
	go func() { // a read of a terminal cannot be interrupted
		text, err := term.NewTerminal(in, "").ReadPassword(escape(question) + ": ")
		if errors.Is(err, io.EOF) { // Ctrl-C or Ctrl-D: the terminal sends no signal now
			err = context.Canceled
		}
		if err != nil {
			failed <- err
			return
		}
		typed <- text
	}()
	select {
	case text := <-typed:
		return []byte(text), true, nil
	case err := <-failed:
		return nil, true, err
	case <-cmd.Context().Done():
		return nil, true, cmd.Context().Err()
	}
}
