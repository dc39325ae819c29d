package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNotConfirmed means that nothing was done, since somebody thought better of it.
var ErrNotConfirmed = fault.New(fault.Other, "nothing was changed: the answer was not yes",
	"--yes does it without a question")

// Confirm asks whether something is to be done that cannot be undone, of whoever sits at a terminal. Nobody is asked
// where there is none.
func Confirm(cmd *cobra.Command, question string) error {
	q := NewQuestions(cmd)
	if q == nil {
		return nil
	}
	answer, err := q.Ask(cmd.Context(), question+" [y/N]", "", func(string) error { return nil })
	if err == nil && !strings.EqualFold(answer, "y") && !strings.EqualFold(answer, "yes") {
		err = ErrNotConfirmed
	}
	return err
}

// Questions are asked on a terminal.
type Questions struct {
	out   io.Writer
	lines chan string // closed at the end of the input
}

// NewQuestions returns nil unless a command reads from a terminal. If stderr is no terminal, the questions are shown
// on that one.
func NewQuestions(cmd *cobra.Command) *Questions {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !isatty.IsTerminal(in.Fd()) {
		return nil
	}
	q := &Questions{out: cmd.ErrOrStderr(), lines: make(chan string)}
	if terminal(q.out) == nil {
		q.out = printable{Writer: in, unread: func() {}}
	}
	go func() { // a read of a terminal cannot be interrupted
		defer close(q.lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			q.lines <- scanner.Text()
		}
	}()
	return q
}

// Ask asks until there is an answer that is right. An empty one stands for the one that is offered.
func (q *Questions) Ask(ctx context.Context, question, offered string, check func(string) error) (string, error) {
	if offered != "" {
		question += " [" + offered + "]"
	}
	for {
		if _, err := fmt.Fprintf(q.out, "%s: ", question); err != nil {
			return "", err
		}
		select {
		case <-ctx.Done():
			fmt.Fprintln(q.out)
			return "", ctx.Err()
		case line, ok := <-q.lines:
			if !ok {
				fmt.Fprintln(q.out)
				return "", errors.New("the input ended before the last question")
			}
			answer := strings.TrimSpace(line)
			if answer == "" {
				answer = offered
			}
			err := check(answer)
			if err == nil {
				return answer, nil
			}
			fmt.Fprintf(q.out, "  %v\n", err)
		}
	}
}
