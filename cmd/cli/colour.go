package cli

import (
	"fmt"
	"io"
	"os"
)

// Colour is that of a word, as the number of its escape sequence: ECMA-48, SGR.
type Colour int

// The colours of what is wrong, of what may be, and of what is right.
const (
	Red    Colour = 31
	Green  Colour = 32
	Yellow Colour = 33
)

// Word writes a word of the program itself, such as "error", in a colour where w is a terminal that has any: not with
// NO_COLOR (https://no-color.org), nor on one that calls itself dumb. Names of others are not written with it, since
// what it writes is not escaped.
func Word(w io.Writer, c Colour, word string) {
	if terminal(w) == nil || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		fmt.Fprint(w, word)
		return
	}
	fmt.Fprintf(raw(w), "\x1b[%dm%s\x1b[0m", c, word)
}
