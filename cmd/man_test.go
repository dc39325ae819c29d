package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// `make release` puts the pages into the packages.
func TestManPageOfEachCommand(t *testing.T) {
	for _, program := range programs {
		dir := t.TempDir()
		if r := run(t, program, "man", dir); r.code != 0 {
			t.Fatalf("%s man: got exit code %d, want 0\n%s", program, r.code, r.errOut)
		}
		for _, h := range helps(t, program) {
			name := strings.Join(append([]string{program}, h.path...), "-") + ".1"
			page, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Error(err)
			}
			for flag := range h.usages {
				if !strings.Contains(string(page), "--"+flag) && flag != "help" {
					t.Errorf("%s: got no --%s, want it", name, flag)
				}
			}
		}
	}
}

func TestVersionOfTheProgram(t *testing.T) {
	for _, program := range programs {
		var got struct{ Program, Version, Go, Platform, Encoder string }
		r := run(t, program, "version", "--output", "json")
		if err := json.Unmarshal([]byte(r.out), &got); err != nil || got.Program != program || got.Version != "dev" ||
			!strings.HasPrefix(got.Go, "go1.") || !strings.HasPrefix(got.Platform, "linux/") ||
			(got.Encoder == "") != (program == "pinbox-node") {
			t.Errorf("got %+v, %v, want all fields", got, err)
		}
	}
}
