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
	t.Parallel()
	program := fixtures.Program(t, "github.com/pinbox/pinbox/cmd/pinbox")
	// Images so small that most of the time something is written.
	r, images := serve(t, nil), map[string]string{}
	for name, sizes := range map[string][]int{"first": {3000, 4000}, "second": {3000, 5000}, "other": {3000, 6000}} {
		var err error
		if images[name], err = r.PushStack(t.Context(), "test/"+name, sizes...); err != nil {
			t.Fatal(err)
		}
	}
	next := write(t, "sets.yaml", sample.Set("worker", images["second"], images["other"]))
	flags := []string{"--insecure-registry=127.0.0.1", "--node-binary", nodeProgram, "--set"}
	build := append([]string{"build"}, flags...)
	old := filepath.Join(t.TempDir(), "old")
	fixtures.Run(t, program, append(slices.Clip(build), write(t, "old.yaml", sample.Set("worker", images["first"])),
		"-o", old)...)
	delta := append(append([]string{"delta", "--from", old}, flags...), next)
	fixtures.Run(t, program, append(slices.Clip(delta), "-o", old+"-delta")...)
	for name, args := range map[string][]string{
		"build":             append(slices.Clip(build), next),
		"build with an ISO": append(slices.Clip(build), next, "--iso", fixtures.LiveISO(t)),
		"delta":             delta,
		"thin delta":        append(slices.Clip(delta), "--thin"),
		"medium":            {"medium", old + "-delta"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			command := func(dir, cache string) *exec.Cmd {
				cmd := exec.Command(program, append(slices.Clip(args), "-o", filepath.Join(dir, "out"))...)
				cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache, "TMPDIR="+cache) // where a killed one leaves files
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
			usual := 4
			if name == "thin delta" { // of which the least is written in one go
				usual = 8
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
