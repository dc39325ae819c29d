package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/mattn/go-isatty"

	"github.com/pinbox/pinbox/storage/fault"
)

// printable writes text in which characters that a terminal does not show, but acts on, are
// escaped: names of images, files and labels come from others. They are controls, such as ESC, and
// what changes the direction of text; newline and tab are written as they are. The escapes are
// those of JSON, so JSON keeps its meaning.
//
// Errors and notes have no secrets of URLs: see fault.HideSecrets.
type printable struct {
	io.Writer
	// errors is whether errors, notes and progress are written to it, and no results.
	errors bool
	// unread is called when the reader of the output has ended.
	unread func()
	// failed is called with the error of a result that was not written, if it is not nil: cobra ignores those of a help.
	failed func(error)
}

// Write implements io.Writer. A character must not be split between two calls.
func (p printable) Write(b []byte) (int, error) {
	text := escape(string(b))
	if p.errors {
		text = fault.HideSecrets(text)
	}
	_, err := io.WriteString(p.Writer, text)
	switch {
	case errors.Is(err, syscall.EPIPE):
		p.unread()
	case err != nil && !p.errors:
		code := fault.Other
		if errors.Is(err, syscall.ENOSPC) {
			code = fault.Space
		}
		err = fault.With(fmt.Errorf("write the output: %w", err), code, "look at the disk or the file that stdout goes to")
		if p.failed != nil {
			p.failed(err)
		}
	}
	return len(b), err
}

// escape returns text with escapes.
func escape(text string) string {
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case r == '\n', r == '\t', unicode.IsGraphic(r):
			b.WriteString(text[:size])
		default:
			for _, unit := range utf16.AppendRune(nil, r) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
		text = text[size:]
	}
	return b.String()
}

// terminal returns the terminal that a writer of a command writes to; nil if it is none.
func terminal(w io.Writer) *os.File {
	if f, ok := raw(w).(*os.File); ok && isatty.IsTerminal(f.Fd()) {
		return f
	}
	return nil
}

func raw(w io.Writer) io.Writer {
	if p, ok := w.(printable); ok {
		return p.Writer
	}
	return w
}

// Content returns the writer for the content of a file, which is written as it is unless w, a writer
// of a command, is a terminal. It reports whether w is one.
func Content(w io.Writer) (content io.Writer, isTerminal bool) {
	if terminal(w) != nil {
		return w, true
	}
	return raw(w), false
}
