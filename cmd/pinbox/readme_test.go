package main

import (
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	demoimages "github.com/pinbox/pinbox/builder/demo"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/fault"
)

var (
	consoleBlock = regexp.MustCompile("(?ms)^```console\n(.*?)^```")
	duration     = regexp.MustCompile(`\bin [0-9.]+m?s\b`)
)

// The consoles of README.md show what pinbox prints, for images as `pinbox demo` makes them. Only the time that a
// build takes is another.
func TestConsoleOfTheReadmeGolden(t *testing.T) {
	const page = "../../README.md"
	readme := string(mustRead(t, page))
	t.Run("session", func(t *testing.T) {
		t.Chdir(t.TempDir())
		program := make([]byte, 12_000_000)
		_, _ = rand.NewChaCha8([32]byte{}).Read(program) // never fails
		for dir, version := range map[string]string{"images": "1.0", "next": "1.1"} {
			if err := demoimages.Write(dir, version, program); err != nil {
				t.Fatal(err)
			}
		}
		for _, block := range consoleBlock.FindAllStringSubmatch(readme, -1) {
			readme = strings.Replace(readme, block[1], console(t, block[1]), 1)
		}
	})
	if got := strings.Count(readme, "\n$ pinbox "); got < 4 {
		t.Errorf("got %d commands in README.md, want at least 4", got)
	}
	fixtures.Golden(t, page, []byte(readme))
}

// console runs the commands of a console, and returns it with what they print.
func console(t *testing.T, block string) string {
	t.Helper()
	var shown strings.Builder
	for line := range strings.Lines(block) {
		command, isCommand := strings.CutPrefix(line, "$ pinbox ")
		if !isCommand {
			continue
		}
		args := strings.Fields(command)
		if args[0] == "build" || args[0] == "delta" { // pinbox-node is not beside the test
			args = append(args, "--node-binary", nodeProgram)
		}
		code, stdout, stderr := pinbox(t.Context(), args...)
		if code != fault.OK {
			t.Fatalf("%sgot exit code %d, want %d\n%s", line, code, fault.OK, stderr)
		}
		shown.WriteString(line + duration.ReplaceAllString(stdout, "in 1.1s"))
	}
	return shown.String()
}
