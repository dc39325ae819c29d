package cli

import (
	"bytes"
	"io"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Page is the flag --html: the file of a page that is written in place of the text.
type Page struct{ file string }

// Add adds the flag.
func (p *Page) Add(flags *pflag.FlagSet, doc string) {
	flags.StringVar(&p.file, "html", "", doc)
	Files(flags, "html", "html")
}

// Wanted reports whether the flag is set.
func (p Page) Wanted() bool { return p.file != "" }

// Write writes the file, with what render writes.
func (p Page) Write(render func(io.Writer) error) error {
	var text bytes.Buffer
	if err := render(&text); err != nil {
		return err
	}
	_, err := atomicfile.Write(p.file, text.Bytes(), 0o644)
	return err
}
