package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"text/tabwriter"

	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"
)

// Output is the form of a command's result: text for people, JSON or YAML for programs.
// Its zero value is text.
type Output string

var outputs = []string{"text", "json", "yaml"}

// Add adds the flag --output, and has the help show it under Output with what has no other heading yet.
func (o *Output) Add(flags *pflag.FlagSet) {
	flags.Var(o, "output", "`FORM` of the result: text, or for programs json or yaml")
	Words(flags, "output", outputs...)
	Under("Output", flags)
}

// Text reports whether the result is for people.
func (o Output) Text() bool { return o.String() == "text" }

// String implements pflag.Value.
func (o Output) String() string {
	if o == "" {
		return outputs[0]
	}
	return string(o)
}

// Set implements pflag.Value.
func (o *Output) Set(word string) error {
	if !slices.Contains(outputs, word) {
		return fmt.Errorf("want text, json or yaml")
	}
	*o = Output(word)
	return nil
}

// Type implements pflag.Value.
func (o Output) Type() string { return "form" }

// outputOf returns the value of the flag --output, or the default if a command does not have it.
func outputOf(flags *pflag.FlagSet) Output {
	if f := flags.Lookup("output"); f != nil {
		return Output(f.Value.String())
	}
	return ""
}

// Encode writes a result for programs.
func (o Output) Encode(w io.Writer, result any) error {
	if o == "yaml" {
		content, err := yaml.Marshal(result) // converts to JSON first, so the keys are the same
		if err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(result)
}

// Log returns a log on stderr: in JSON if the result is not text.
func (o Output) Log(stderr io.Writer) *slog.Logger {
	if o.Text() {
		return slog.New(slog.NewTextHandler(stderr, nil))
	}
	return slog.New(slog.NewJSONHandler(stderr, nil))
}

// Table returns a writer that aligns columns, each ended by a tab. Flush it.
func Table(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// Plural returns a number with a noun.
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
