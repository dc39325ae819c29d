package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// A command that is killed at any moment and run again gives what an undisturbed one gives, and
// leaves nothing else.
func TestKilledCommandIsDoneAgain(t *testing.T) {
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	pins := samples(t)
	build := []string{
		"build", "--insecure-registry=127.0.0.1", "--node-binary", nodeProgram(t), "--set",
		write(t, "sets.yaml", pins.Sets()),
	}
	old := filepath.Join(t.TempDir(), "old")
	fixtures.Run(t, program, slices.Concat(build[:5], []string{write(t, "old.yaml", sample.Set("old", pins.Pause)), "-o", old})...)
	delta := []string{"delta", "--insecure-registry=127.0.0.1", "--from", old, "--set", build[len(build)-1]}
	fixtures.Run(t, program, append(slices.Clip(delta), "-o", old+"-delta")...)
	for name, args := range map[string][]string{
		"build":             build,
		"build with an ISO": append(slices.Clip(build), "--iso", fixtures.LiveISO(t)),
		"delta":             delta,
		"thin delta":        append(slices.Clip(delta), "--thin"),
		"medium":            {"medium", old + "-delta"},
	} {
		t.Run(name, func(t *testing.T) {
			command := func(dir, cache string) *exec.Cmd {
				cmd := exec.Command(program, append(slices.Clip(args), "-o", filepath.Join(dir, "out"))...)
				cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache)
				return cmd
			}
			run := func(dir, cache string) {
				if text, err := command(dir, cache).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
			}
			undisturbed := t.TempDir()
			run(undisturbed, t.TempDir())
			want := fixtures.Tree(t, undisturbed)
			usual := 10
			if name == "thin delta" { // of which the least is written in one go
				usual = 50
			}
			k, kills := fixtures.NewKiller(t), fixtures.Soak(t, usual)
			for k.Kills() < kills {
				dir, cache := t.TempDir(), t.TempDir()
				k.Kill(name, command(dir, cache))
				if _, err := os.Stat(filepath.Join(dir, "out")); err != nil { // it had not taken its place yet
					run(dir, cache)
				}
				if diff := cmp.Diff(want, fixtures.Tree(t, dir)); diff != "" {
					t.Fatalf("after %v (-undisturbed +killed):\n%s", k.Killed, diff)
				}
			}
			t.Logf("killed: %v, ended: %d", k.Killed, k.Ended)
		})
	}
}
