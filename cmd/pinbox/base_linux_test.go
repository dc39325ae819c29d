package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// A build opened its base 11 times: each question to it was an open of its own, and the file could be another one
// each time.
func TestBaseIsOpenedOnce(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	program, strace := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox"), fixtures.Need(t, "strace")
	config := write(t, "agent.ign", []byte(`{"ignition":{"version":"3.2.0"}}`))
	base := filepath.Join(t.TempDir(), "base.iso")
	fixtures.Run(t, fixtures.Peer(t, "agentiso"), fixtures.LiveISO(t, "-rock", "-m", "efiboot.img"), config, base)
	plain := fixtures.LiveISO(t)
	for name, test := range map[string]struct {
		base string
		args []string
	}{
		"plain":             {plain, nil},
		"install":           {plain, []string{"--install-device", "/dev/sda"}},
		"merge":             {base, []string{"--merge"}},
		"merge and install": {base, []string{"--merge", "--install-device", "/dev/sda"}},
		"replace":           {base, []string{"--replace-config"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trace := filepath.Join(t.TempDir(), "trace")
			fixtures.Run(t, strace, append([]string{
				"-f", "-e", "trace=open,openat,openat2", "-o", trace, program, "build", "--set", write(t, "sets.yaml", pins.Sets()),
				"--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "-o", filepath.Join(t.TempDir(), "out"),
				"--iso", test.base,
			}, test.args...)...)
			if got := bytes.Count(mustRead(t, trace), []byte(`"`+test.base+`"`)); got != 1 {
				t.Errorf("got %d opens of the base, want one", got)
			}
		})
	}
}
