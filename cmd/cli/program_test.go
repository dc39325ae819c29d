package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pinbox/pinbox/storage/fault"
)

var errDisk = fault.New(fault.Space, "full", "free some")

// runProgram runs a program with a command work, which returns err.
func runProgram(ctx context.Context, err error, args ...string) (code int, stdout, stderr string) {
	var output Output
	work := &cobra.Command{
		Use: "work", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return err },
	}
	output.Add(work.Flags())
	root := &cobra.Command{Use: "tool"}
	root.AddCommand(work)
	var out, errOut bytes.Buffer
	system := []SystemError{{syscall.EIO, fault.Other, "use another disk"}, {errDisk, fault.Other, "never"}}
	code = Program{root, system}.Run(ctx, args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestExitCodesAndHints(t *testing.T) {
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	full, within := fmt.Errorf("write: %w", errDisk), fmt.Errorf("x: %w", context.Canceled)
	for name, c := range map[string]struct {
		ctx  context.Context
		err  error
		args string
		code int
		text string
	}{
		"done":    {args: "work"},
		"a fault": {err: full, args: "work", code: 5, text: "tool: write: full\nhint: free some\n"},
		"a system error": {
			err: fmt.Errorf("read: %w", syscall.EIO), args: "work", code: 1,
			text: "tool: read: input/output error\nhint: use another disk\n",
		},
		"another": {err: errors.New("else\n"), args: "work", code: 1, text: "tool: else\n"},
		"a usage error": {
			err: Usagef("both: %w", full), args: "work", code: 2, text: "tool: both: write: full\nhint: ",
		},
		"an unknown flag":      {args: "work --fast", code: 2, text: "tool: unknown flag: --fast\nhint: "},
		"an unknown command":   {args: "play", code: 2, text: "tool: unknown command"},
		"an argument too many": {args: "work hard", code: 2, text: "hint: "},
		"another output":       {args: "work --output xml", code: 2, text: "want text, json or yaml"},
		"reported already":     {err: Reported(4), args: "work", code: 4},
		"interrupted": {
			ctx: canceled, err: full, args: "work", code: 130, text: "tool: interrupted\nhint: no incomplete result was left; ",
		},
		"interrupted within": {err: within, args: "work", code: 130, text: "tool: interrupted\n"},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			code, stdout, stderr := runProgram(ctx, c.err, strings.Fields(c.args)...)
			if code != c.code || stdout != "" || !strings.Contains(stderr, c.text) || c.text == "" && stderr != "" {
				t.Errorf("got exit code %d and %q, want %d and %q", code, stdout+stderr, c.code, c.text)
			}
		})
	}
}

func TestErrorsForPrograms(t *testing.T) {
	for _, output := range []string{"json", "yaml"} {
		t.Run(output, func(t *testing.T) {
			code, _, stderr := runProgram(t.Context(), errDisk, "work", "--output", output)
			var got Failure
			err := json.Unmarshal([]byte(stderr), &got)
			want := Failure{"full", "free some", fault.Space}
			if err != nil || got != want || code != fault.Space {
				t.Errorf("got exit code %d, %v and %q, want %v", code, err, stderr, want)
			}
		})
	}
}

func TestYAMLHasTheKeysOfJSON(t *testing.T) {
	result := struct {
		Bytes int64 `json:"bytes"`
		Image struct {
			Name string `json:"name,omitempty"`
			Ref  string `json:"ref"`
		} `json:"image"`
	}{Bytes: 1 << 60}
	result.Image.Ref = "a<b"
	for output, want := range map[Output]string{
		"json": "{\n  \"bytes\": 1152921504606846976,\n  \"image\": {\n    \"ref\": \"a<b\"\n  }\n}\n",
		"yaml": "bytes: 1152921504606846976\nimage:\n  ref: a<b\n",
	} {
		t.Run(string(output), func(t *testing.T) {
			var b bytes.Buffer
			if err := output.Encode(&b, result); err != nil || b.String() != want {
				t.Errorf("got %v and\n%swant\n%s", err, b.String(), want)
			}
		})
	}
}

// closedPipe is an output whose reader has ended.
type closedPipe struct{}

func (closedPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Path: "|1", Err: syscall.EPIPE}
}

// `pinbox build | head` ends the build when head has ended.
func TestOutputThatNobodyReadsEndsTheCommand(t *testing.T) {
	work := &cobra.Command{Use: "work", RunE: func(c *cobra.Command, _ []string) error {
		fmt.Fprintln(c.OutOrStdout(), "a line")
		<-c.Context().Done()
		return c.Context().Err()
	}}
	root := &cobra.Command{Use: "tool"}
	root.AddCommand(work)
	var errOut bytes.Buffer
	if got := (Program{Root: root}).Run(t.Context(), []string{"work"}, closedPipe{}, &errOut); got != fault.Unread || errOut.Len() > 0 {
		t.Errorf("got exit code %d and %q, want %d and nothing", got, &errOut, fault.Unread)
	}
}

// A full disk of the output is none of the cache.
func TestOutputOnAFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, args := range [][]string{{"show"}, {"--help"}, {"help", "show"}, {"show", "--help"}, {"--version"}} {
		root := &cobra.Command{Use: "tool", Version: "1"}
		root.AddCommand(&cobra.Command{Use: "show", RunE: func(c *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(c.OutOrStdout(), "a line")
			return err
		}})
		var errOut bytes.Buffer
		p := Program{Root: root, System: []SystemError{{syscall.ENOSPC, fault.Space, "empty the cache"}}}
		got, text := p.Run(t.Context(), args, full, &errOut), errOut.String()
		if got != fault.Space || strings.Count(text, "write the output: ") != 1 || strings.Contains(text, "cache") {
			t.Errorf("%q: got exit code %d and %q, want %d and a hint about the output", args, got, text, fault.Space)
		}
	}
}

// An interrupted command says what it has kept, and how to go on.
func TestInterruptedCommandSaysWhatIsKept(t *testing.T) {
	work := &cobra.Command{Use: "work", RunE: func(*cobra.Command, []string) error { return context.Canceled }}
	Interrupted(work, "the cache keeps the layers")
	root := &cobra.Command{Use: "tool"}
	root.AddCommand(work)
	var out, errOut bytes.Buffer
	code := Program{Root: root}.Run(t.Context(), []string{"work"}, &out, &errOut)
	if want := "tool: interrupted\nhint: the cache keeps the layers\n"; code != 130 || errOut.String() != want {
		t.Errorf("got exit code %d and %q, want 130 and %q", code, errOut.String(), want)
	}
}

// An argument makes no line of its own: whoever named a file would choose what it says.
func TestArgumentsHaveNoLines(t *testing.T) {
	for _, args := range [][]string{{"work", "a\nready"}, {"work", "--output=a\nready"}, {"a\nready"}} {
		code, out, text := runProgram(t.Context(), nil, args...)
		if code != fault.Usage || out != "" || !strings.Contains(text, `a\nready`) || strings.Contains(text, "\nready") {
			t.Errorf("%q: got exit code %d, %q and %q, want %d and the argument in quotes", args, code, out, text, fault.Usage)
		}
	}
}
