package ignition_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// highest is the exposure that systemd-analyze may find in a service, times ten: 4.0 of 10. All were at 9.6.
const highest = "40"

// Each service has a sandbox, and limits of memory, threads and time. A command of systemd's that is exempt
// from the sandbox only installs the program that the configuration names.
func TestSandboxes(t *testing.T) {
	units, err := filepath.Glob(filepath.Join(fixtures.Root(t), "fixtures/golden/*.service"))
	if err != nil || len(units) < 15 {
		t.Fatalf("got the units %v, %v, want at least 15", units, err)
	}
	for _, unit := range units {
		t.Run(filepath.Base(unit), func(t *testing.T) {
			content, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			out, err := exec.Command(fixtures.Need(t, "systemd-analyze"), "security", "--offline=true", "--no-pager",
				"--threshold="+highest, unit).CombinedOutput()
			if err != nil {
				t.Errorf("got %v, want an exposure of at most 4.0\n%s", err, out)
			}
			for _, limit := range []string{"\nMemoryMax=", "\nTasksMax=", "\nTimeoutStartSec="} {
				if !strings.Contains(string(content), limit) {
					t.Errorf("got no %q, want one:\n%s", limit[1:], content)
				}
			}
			for line := range strings.Lines(string(content)) {
				name, command, _ := strings.Cut(line, "=")
				if strings.HasPrefix(name, "Exec") && strings.Contains(command[:min(3, len(command))], "+") &&
					!strings.Contains(command, "is not the one of the configuration") {
					t.Errorf("got a command without a sandbox, want none: %s", line)
				}
			}
		})
	}
}
