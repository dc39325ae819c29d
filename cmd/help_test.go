package cmd_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

var programs = []string{"pinbox", "pinbox-node"}

// answer is what a program has said to a command line.
type answer struct {
	code        int
	out, errOut string
}

func ask(t *testing.T, program string, args ...string) answer {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := exec.Command(fixtures.Program(t, module+"cmd/"+program), args...)
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return answer{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// complete asks for the words that a shell offers for the last argument, and for what cobra
// has the shell do with them.
func complete(t *testing.T, program string, args ...string) (words []string, directive string) {
	t.Helper()
	said := ask(t, program, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSpace(said.out), "\n")
	if said.code != 0 {
		t.Fatalf("%s __complete %q: got exit code %d\n%s", program, args, said.code, said.errOut)
	}
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		words = append(words, word)
	}
	return words, lines[len(lines)-1]
}

// help is the help of a command in its parts.
type help struct {
	path     []string
	text     string
	commands []string
	usages   map[string]string // of flags, by their names
	headings map[string]string // of flags, by their names
}

var (
	headingLine = regexp.MustCompile(`^([A-Z][A-Za-z ]+):$`)
	commandLine = regexp.MustCompile(`^  ([a-z-]+) +[A-Z]`)
	flagLine    = regexp.MustCompile(`^  (?:-[a-z], |    )--([a-z.-]+)(?: \S+)?  +(.*)$`)
)

func parseHelp(path []string, text string) help {
	h := help{path: path, text: text, usages: map[string]string{}, headings: map[string]string{}}
	heading, flag := "", ""
	for _, line := range strings.Split(text, "\n") {
		if m := headingLine.FindStringSubmatch(line); m != nil {
			heading, flag = m[1], ""
		} else if m := flagLine.FindStringSubmatch(line); m != nil {
			flag = m[1]
			h.usages[flag], h.headings[flag] = m[2], heading
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

// helps are those of a program and of all its commands, but for those that cobra brings.
func helps(t *testing.T, program string, path ...string) []help {
	t.Helper()
	said := ask(t, program, append(slices.Clone(path), "--help")...)
	if said.code != 0 || said.errOut != "" {
		t.Fatalf("%s %q --help: got exit code %d\n%s", program, path, said.code, said.errOut)
	}
	h := parseHelp(path, said.out)
	all := []help{h}
	for _, c := range h.commands {
		if c != "help" && c != "completion" {
			all = append(all, helps(t, program, append(slices.Clone(path), c)...)...)
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
				fmt.Fprintf(&text, "$ %s --help\n%s\n", line, h.text)
				t.Run(line, func(t *testing.T) { checkHelp(t, program, h) })
			}
			fixtures.Golden(t, program+"-help.txt", []byte(text.String()))
		})
	}
}

// checkHelp compares the help with what cobra lists for shells: all commands are there, and
// all flags under headings.
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
	if len(flags) != len(h.usages) {
		t.Errorf("got %d flags in the help, want %d", len(h.usages), len(flags))
	}
}

func checkFlag(t *testing.T, name, heading, usage string) {
	t.Helper()
	general := name == "help" || name == "version"
	if heading == "" || general != (heading == "General") {
		t.Errorf("--%s: got the heading %q", name, heading)
	}
	if len(strings.Fields(usage)) < 3 || strings.HasSuffix(usage, ".") {
		t.Errorf("--%s: got the usage %q, want a clause of three words or more without a full stop", name, usage)
	}
	for _, word := range []string{"likewise", "ditto", "as above", "see above"} {
		if strings.Contains(usage, word) {
			t.Errorf("--%s: the usage %q cannot be understood alone", name, usage)
		}
	}
}

// What cobra has a shell do with the words, as its ShellCompDirective.
const (
	files     = ":0"
	onlyWords = ":4"
	endings   = ":8"
	folders   = ":16"
)

// nodeWithStores is the folder of a node's state with two stores attached.
func nodeWithStores(t *testing.T) string {
	t.Helper()
	id := func(digit string) digest.Digest {
		return digest.NewDigestFromEncoded(digest.SHA256, strings.Repeat(digit, 64))
	}
	content, err := json.Marshal(stores.State{Version: 1, Stores: []stores.Store{
		{ID: id("a"), Name: "ship-7", Slot: "1", Size: 1 << 20}, {ID: id("b"), Slot: "2", Size: 1 << 20},
	}})
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	if err := os.Mkdir(filepath.Join(state, "stores.d"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(state, "stores.d/state.json"), content, 0o644); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestCompletions(t *testing.T) {
	state, empty := nodeWithStores(t), t.TempDir()
	for _, c := range []struct {
		line      string
		words     string
		directive string
	}{
		{"pinbox build --output ", "text json yaml", onlyWords},
		{"pinbox build --config ", "yaml yml json", endings},
		{"pinbox build --iso ", "iso", endings},
		{"pinbox build --platform ", "linux/amd64 linux/arm64 linux/ppc64le linux/riscv64 linux/s390x", onlyWords},
		{"pinbox build --cache-dir ", "", folders},
		{"pinbox build --cert-dir ", "", folders},
		{"pinbox build --authfile ", "", files},
		{"pinbox build --stall ", "", onlyWords},
		{"pinbox build --image ", "", onlyWords},
		{"pinbox build ", "", onlyWords},
		{"pinbox delta --from ", "iso json", endings},
		{"pinbox verify ", "iso", endings},
		{"pinbox verify out ", "", onlyWords},
		{"pinbox verify --base ", "iso", endings},
		{"pinbox diff old.iso ", "iso json", endings},
		{"pinbox lint a.yaml ", "yaml yml json", endings},
		{"pinbox iso ", "extract reset show", onlyWords},
		{"pinbox iso show ", "iso", endings},
		{"pinbox medium ", "", folders},
		{"pinbox cache prune --keep ", "10GiB 50GiB", onlyWords},
		{"pinbox completion ", "bash fish powershell zsh", onlyWords},
		{"pinbox-node status --output ", "text json yaml", onlyWords},
		{"pinbox-node run --owner ", "auto pinbox mco", onlyWords},
		{"pinbox-node run --reload ", "auto systemd signal", onlyWords},
		{"pinbox-node run --parallel ", "", onlyWords},
		{"pinbox-node run --state ", "", folders},
		{"pinbox-node attach ", "", files},
		{"pinbox-node detach --state " + state + " ", "1 ship-7 aaaaaaaaaaaa 2 bbbbbbbbbbbb", onlyWords},
		{"pinbox-node detach --state " + state + " 1 ", "", onlyWords},
		{"pinbox-node detach --state " + empty + " ", "", onlyWords},
		{"pinbox-node compact ", "", onlyWords},
		{"pinbox-node completion ", "bash fish powershell zsh", onlyWords},
	} {
		t.Run(c.line, func(t *testing.T) {
			args := strings.Split(c.line, " ")
			words, directive := complete(t, args[0], args[1:]...)
			if got := strings.Join(words, " "); got != c.words || directive != c.directive {
				t.Errorf("got %q and %s, want %q and %s", got, directive, c.words, c.directive)
			}
		})
	}
}

// YAML has what JSON has, and there is no third form for programs.
func TestOutputs(t *testing.T) {
	dir := t.TempDir()
	lock := filepath.Join(fixtures.Root(t), "fixtures/golden/pinbox.lock.json")
	for _, line := range []string{
		"pinbox diff " + lock + " " + lock,
		"pinbox cache ls --cache-dir " + dir,
		"pinbox-node stores --sets " + dir + "/etc/sets.d --state " + dir + "/state --crio-config " + dir,
	} {
		args := strings.Fields(line)
		t.Run(strings.Join(args[:2], " "), func(t *testing.T) {
			get := func(form string) answer { return ask(t, args[0], append(args[1:], "--output", form)...) }
			inJSON, inYAML, inXML := get("json"), get("yaml"), get("xml")
			var want, got any
			if err := json.Unmarshal([]byte(inJSON.out), &want); err != nil || inJSON.code != 0 {
				t.Fatalf("json: got exit code %d and %v\n%s%s", inJSON.code, err, inJSON.out, inJSON.errOut)
			}
			if err := yaml.Unmarshal([]byte(inYAML.out), &got); err != nil || inYAML.code != 0 {
				t.Fatalf("yaml: got exit code %d and %v\n%s%s", inYAML.code, err, inYAML.out, inYAML.errOut)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-json +yaml)\n%s", diff)
			}
			if strings.HasPrefix(inYAML.out, "{") {
				t.Errorf("yaml: got JSON:\n%s", inYAML.out)
			}
			if inXML.code != 2 || inXML.out != "" || !strings.Contains(inXML.errOut, "want text, json or yaml") {
				t.Errorf("xml: got exit code %d and %q", inXML.code, inXML.out+inXML.errOut)
			}
		})
	}
}
