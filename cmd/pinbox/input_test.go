package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// A pipe or a device where a file is expected is refused at once. Bugs were to block for ever on a pipe, and to read
// a device until no memory was left. %s in a command line is the path. Lists, sets, manifests and mirrors may be pipes:
// TestInterruptAtEachWait has one that nobody writes to.
func TestInputsThatAreNoFiles(t *testing.T) {
	t.Parallel()
	sets := write(t, "sets.yaml", sample.Set("worker", "quay.example.com/a@"+someDigest))
	appliance := func(spec string) string {
		return write(t, "appliance.yaml", []byte("apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: a}\n"+
			"spec:\n  sources:\n  - pinnedImageSets: ["+sets+"]\n  "+spec+"\n"))
	}
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	with := "plan --set " + sets + " "
	pipes := []string{"plan --set %s", "plan --image-list %s", "plan --manifests %s", with + "--mirrors %s", "lint %s"}
	for _, args := range []string{
		"plan -c %s", "plan --set %s", "plan --image-list %s", "plan --manifests %s", "plan --archive %s",
		"plan --oc-mirror %s", "plan --image-set-config %s", with + "--mirrors %s", with + "--authfile %s",
		with + "--pull-secret %s", with + "--policy %s", with + "--lock %s", with + "--from %s",
		"build --set " + sets + " -o out --node-binary %s", "build --set " + sets + " -o out --iso %s --node-binary " + nodeProgram,
		"build --set " + sets + " -o out --sign-key %s", "build --set " + sets + " -o out --sign-key x --sign-passphrase-file %s",
		"plan -c " + appliance("ignition: {butane: [%s]}"), "plan -c " + appliance("node: {pullSecret: %s}"),
		"lint %s", "lint --lock %s " + sets, "diff %s %s", "verify %s", "verify --key %s .", "inspect %s",
	} {
		for kind, make := range map[string]func(string) error{
			"a pipe":   func(path string) error { return syscall.Mkfifo(path, 0o644) },
			"a device": func(path string) error { return os.Symlink("/dev/zero", path) },
		} {
			if kind == "a pipe" && slices.Contains(pipes, args) {
				continue
			}
			t.Run(args+" is "+kind, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "input.yaml")
				if err := make(path); err != nil {
					t.Fatal(err)
				}
				line := strings.Fields(strings.ReplaceAll(args, "%s", path))
				for i, arg := range line { // an appliance file names the path
					if arg == "-c" && line[i+1] != path {
						content := strings.ReplaceAll(string(mustRead(t, line[i+1])), "%s", path)
						line[i+1] = write(t, "appliance.yaml", []byte(content))
					}
				}
				checkRefused(t, program, line, kind)
			})
		}
	}
}

func TestFolderInPlaceOfAFile(t *testing.T) {
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	cmd := exec.CommandContext(t.Context(), program, "plan", "--insecure-policy", "--image-list", t.TempDir())
	output, _ := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); code != fault.Input || !strings.Contains(string(output), "hint: name a file") {
		t.Errorf("got exit code %d, want %d and a hint\n%s", code, fault.Input, output)
	}
}

// checkRefused runs a command in a process of its own: a call that blocks cannot be ended, and memory that a device
// fills has a limit.
func checkRefused(t *testing.T, program string, args []string, kind string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", append([]string{
		"-c", `ulimit -v 8388608; exec "$0" "$@"`, program,
	}, args...)...)
	cmd.Dir = t.TempDir()
	output, err := cmd.CombinedOutput()
	want := " is " + kind + ", not a regular file"
	if code := cmd.ProcessState.ExitCode(); code != fault.Input || !strings.Contains(string(output), want) ||
		!strings.Contains(string(output), "hint: write what it gives to a file") {
		t.Errorf("got exit code %d, %v, want %d and %q\n%s", code, err, fault.Input, want,
			output[:min(len(output), 500)])
	}
}
