package cmd_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

var programs = []string{"pinbox", "pinbox-node"}

// result is the exit code of a program, and its output to stdout and stderr.
type result struct {
	code        int
	out, errOut string
}

func run(t *testing.T, program string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(fixtures.Program(t, module+"cmd/"+program), args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// help has the parts of a command's help.
type help struct {
	path     []string
	text     string
	commands []string
	short    int               // flags that are shown without --all
	usages   map[string]string // of flags, by their names
	values   map[string]string // placeholders of flags, by their names
	headings map[string]string // of flags, by their names
}

var (
	headingLine = regexp.MustCompile(`^([A-Z][A-Za-z ]+):$`)
	commandLine = regexp.MustCompile(`^  ([a-z-]+) +[A-Z]`)
	flagLine    = regexp.MustCompile(`^  (?:-[a-zA-Z], |    )--([a-z.-]+)(?: (\S+))?  +(.*)$`)
)

func parseHelp(path []string, text string) help {
	h := help{
		path: path, text: text,
		usages: map[string]string{}, values: map[string]string{}, headings: map[string]string{},
	}
	heading, flag := "", ""
	for _, line := range strings.Split(text, "\n") {
		if m := headingLine.FindStringSubmatch(line); m != nil {
			heading, flag = m[1], ""
		} else if m := flagLine.FindStringSubmatch(line); m != nil {
			flag = m[1]
			h.values[flag], h.usages[flag], h.headings[flag] = m[2], m[3], heading
		} else if strings.HasPrefix(line, strings.Repeat(" ", 12)) && flag != "" {
			h.usages[flag] += " " + strings.TrimSpace(line)
		} else if m := commandLine.FindStringSubmatch(line); m != nil && heading != "Usage" && heading != "Examples" {
			h.commands = append(h.commands, m[1])
		}
		if line == "" {
			heading, flag = "", ""
		}
	}
	return h
}

// known are the helps of the programs, which several tests read: a program is started for each command.
var known = map[string][]help{}

// helps returns the help of a program and of all its commands, except cobra's own.
func helps(t *testing.T, program string) []help {
	t.Helper()
	if known[program] == nil {
		known[program] = helpsBelow(t, program)
	}
	return known[program]
}

// helpsBelow returns the help of a command and of all commands below it.
func helpsBelow(t *testing.T, program string, path ...string) []help {
	t.Helper()
	r := run(t, program, append(slices.Clone(path), "--help")...)
	if r.code != 0 || r.errOut != "" {
		t.Fatalf("%s %q --help: got exit code %d, want 0\n%s", program, path, r.code, r.errOut)
	}
	h := parseHelp(path, r.out)
	short := len(h.usages)
	if strings.Contains(r.out, "--help --all` shows") {
		h = parseHelp(path, run(t, program, append(slices.Clone(path), "--help", "--all")...).out)
	}
	h.short = short
	all := []help{h}
	for _, c := range h.commands {
		if c != "help" && c != "completion" {
			all = append(all, helpsBelow(t, program, append(slices.Clone(path), c)...)...)
		}
	}
	return all
}

func TestHelpGolden(t *testing.T) {
	for _, program := range programs {
		t.Run(program, func(t *testing.T) {
			var text strings.Builder
			for _, h := range helps(t, program) {
				line := strings.Join(append([]string{program}, h.path...), " ")
				if h.short < len(h.usages) {
					line += " --all"
				}
				fmt.Fprintf(&text, "$ %s --help\n%s\n", line, h.text)
				t.Run(line, func(t *testing.T) { checkHelp(t, program, h) })
			}
			fixtures.Golden(t, program+"-help.txt", []byte(text.String()))
		})
	}
}

// checkHelp compares the help with what cobra lists for shells: it has all commands, and all flags
// under headings.
func checkHelp(t *testing.T, program string, h help) {
	t.Helper()
	for _, line := range strings.Split(h.text, "\n") {
		if len(line) > 100 {
			t.Errorf("got a line of %d columns, want at most 100: %s", len(line), line)
		}
	}
	if len(h.commands) > 0 {
		commands, _ := complete(t, program, append(slices.Clone(h.path), "")...)
		slices.Sort(commands)
		if got := slices.Sorted(slices.Values(h.commands)); !slices.Equal(got, commands) {
			t.Errorf("got the commands %v, want %v", got, commands)
		}
	}
	flags, _ := complete(t, program, append(slices.Clone(h.path), "--")...)
	for _, flag := range flags {
		name := strings.Trim(flag, "-=")
		checkFlag(t, name, h.headings[name], h.usages[name])
	}
	checkExamples(t, program, h)
	if most := 17; h.short > most { // 15, and --help and --all
		t.Errorf("got %d flags without --all, want at most %d: name those that most need with cli.Common", h.short, most)
	}
	if len(flags) != len(h.usages) {
		t.Errorf("got %d flags in the help, want %d", len(h.usages), len(flags))
	}
}

// checkExamples checks that a command has examples, which call it with flags that it has.
func checkExamples(t *testing.T, program string, h help) {
	t.Helper()
	_, examples, _ := strings.Cut(h.text, "\nExamples:\n")
	examples, _, _ = strings.Cut(examples, "\n\n")
	path := strings.Join(append([]string{program}, h.path...), " ")
	if len(h.commands) == 0 && examples == "" && path != program+" version" {
		t.Errorf("got no examples in the help of %s, want some", path)
	}
	for _, line := range strings.FieldsFunc(examples, func(r rune) bool { return r == '\n' }) {
		line, _, _ = strings.Cut(line, " # ")
		if !strings.HasPrefix(line, "  "+path) {
			t.Errorf("got the example %q, want a call of %s", line, path)
		}
		for _, flag := range flagInText.FindAllString(line, -1) {
			if _, ok := h.usages[strings.TrimPrefix(flag, "--")]; !ok {
				t.Errorf("got the example %q with %s, want flags of %s", line, flag, path)
			}
		}
	}
}

func checkFlag(t *testing.T, name, heading, usage string) {
	t.Helper()
	general := name == "help" || name == "version" || name == "all" && strings.HasPrefix(usage, "with --help")
	if heading == "" || general != (heading == "General") {
		t.Errorf("--%s: got the heading %q, want another", name, heading)
	}
	if len(strings.Fields(usage)) < 3 || strings.HasSuffix(usage, ".") {
		t.Errorf("--%s: got the usage %q, want a clause of three words or more without a full stop", name, usage)
	}
	for _, word := range []string{"likewise", "ditto", "as above", "see above"} {
		if strings.Contains(usage, word) {
			t.Errorf("--%s: got the usage %q, want one that can be understood alone", name, usage)
		}
	}
}
