package fault

import (
	"errors"
	"fmt"
)

// Exit codes of both programs. docs/cli.md has their meaning for pinbox, docs/node.md for pinbox-node.
const (
	OK          = 0
	Other       = 1
	Usage       = 2
	Input       = 3
	Damaged     = 4
	Space       = 5
	Registry    = 6
	Busy        = 7
	Interrupted = 130 // 128 + SIGINT, as in shells
	Unread      = 141 // 128 + SIGPIPE
)

// Error is an error with an exit code and a hint.
type Error struct {
	// Exit is the exit code of the program.
	Exit int
	// Hint says what to do; "" if there is nothing to say.
	Hint string

	text  string
	cause error // of With, else nil
}

// New makes an error of its text. Each one is an error of its own to errors.Is.
func New(exit int, text, hint string) error { return &Error{Exit: exit, Hint: hint, text: text} }

// With returns an error with the text of err, which it wraps, and another exit code and hint.
func With(err error, exit int, hint string) error {
	return &Error{Exit: exit, Hint: hint, text: err.Error(), cause: err}
}

// Wrap returns an error "effect: cause", of which the effect counts: the hint of the cause would mislead.
func Wrap(effect, cause error) error {
	err := fmt.Errorf("%w: %w", effect, cause)
	if f := Of(effect); f != nil {
		return With(err, f.Exit, f.Hint)
	}
	return err
}

// Ignore returns an error, unless it is the one to ignore.
func Ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// Error returns the text.
func (e *Error) Error() string { return e.text }

// Unwrap returns what With has wrapped.
func (e *Error) Unwrap() error { return e.cause }

// Of returns what counts of an error, or nil if New and With have made none of it.
func Of(err error) *Error {
	switch e := err.(type) { //nolint:errorlint // it walks the tree itself
	case *Error:
		return e
	case interface{ Unwrap() error }:
		return Of(e.Unwrap())
	case interface{ As(any) bool }: // it hides what it wraps from errors.Is
		var f *Error
		e.As(&f)
		return f
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		for i := len(all) - 1; i >= 0; i-- {
			if f := Of(all[i]); f != nil {
				return f
			}
		}
	}
	return nil
}
