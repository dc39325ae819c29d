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
)

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
