package cmd_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/pinset"
)

// complete returns the completions of the last argument, and cobra's directive for them.
func complete(t *testing.T, program string, args ...string) (words []string, directive string) {
	t.Helper()
	r := run(t, program, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	if r.code != 0 {
		t.Fatalf("%s __complete %q: got exit code %d\n%s", program, args, r.code, r.errOut)
	}
	for _, line := range lines[:len(lines)-1] {
		word, _, _ := strings.Cut(line, "\t")
		words = append(words, word)
	}
	return words, lines[len(lines)-1]
}

// Directives: values of cobra.ShellCompDirective.
const (
	files     = ":0"
	onlyWords = ":4"
	endings   = ":8"
	folders   = ":16"
)

// nodeWithStores makes the state folder of a node with two attached stores.
func nodeWithStores(t *testing.T) string {
	t.Helper()
	id := func(digit string) digest.Digest {
		return digest.NewDigestFromEncoded(digest.SHA256, strings.Repeat(digit, 64))
	}
	content, err := json.Marshal(stores.State{Version: 1, Stores: []stores.Store{
		{ID: id("a"), ReleaseID: pinset.ReleaseID{Name: "ship-7"}, Slot: "1", Size: 1 << 20},
		{ID: id("b"), Slot: "2", Size: 1 << 20},
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
		{"pinbox build -o ", "", folders},
		{"pinbox build --install-device ", "", files},
		{"pinbox build --stall ", "", onlyWords},
		{"pinbox build --image ", "", onlyWords},
		{"pinbox build --oci ", "", folders},
		{"pinbox build --archive ", "", files},
		{"pinbox build ", "", onlyWords},
		{"pinbox delta --from ", "iso json", endings},
		{"pinbox verify ", "iso", endings},
		{"pinbox verify out ", "", onlyWords},
		{"pinbox verify --base ", "iso", endings},
		{"pinbox diff old.iso ", "iso json", endings},
		{"pinbox lint a.yaml ", "yaml yml json", endings},
		{"pinbox iso ", "extract", onlyWords},
		{"pinbox medium ", "", folders},
		{"pinbox cache prune --keep ", "10GiB 50GiB", onlyWords},
		{"pinbox completion ", "bash fish powershell zsh", onlyWords},
		{"pinbox-node status --output ", "text json yaml", onlyWords},
		{"pinbox-node run --set ", "", onlyWords},
		{"pinbox-node run --config ", "json", endings},
		{"pinbox-node run --wait ", "", onlyWords},
		{"pinbox-node install-store --medium ", "", folders},
		{"pinbox-node attach ", "", files},
		{"pinbox-node attach --digest ", "", onlyWords},
		{"pinbox-node rollback ", "", onlyWords},
		{"pinbox-node detach --set stateDir=" + state + " ", "1 ship-7 aaaaaaaaaaaa 2 bbbbbbbbbbbb", onlyWords},
		{"pinbox-node detach --set stateDir=" + state + " 1 ", "", onlyWords},
		{"pinbox-node detach --set stateDir=" + empty + " ", "", onlyWords},
		{"pinbox-node compact ", "", onlyWords},
		{"pinbox-node verify --sample ", "1% 5% 100%", onlyWords},
		{"pinbox-node completion ", "bash fish powershell zsh", onlyWords},
	} {
		t.Run(c.line, func(t *testing.T) {
			t.Parallel()
			args := strings.Split(c.line, " ")
			words, directive := complete(t, args[0], args[1:]...)
			if got := strings.Join(words, " "); got != c.words || directive != c.directive {
				t.Errorf("got %q and %s, want %q and %s", got, directive, c.words, c.directive)
			}
		})
	}
}

// A bug was to complete values of NAME, TIME and SIZE with file names.
func TestFlagsAreCompletedByTheirPlaceholders(t *testing.T) {
	want := map[string][]string{
		"DIR": {folders}, "FILE": {files, endings}, "PATH": {files, endings}, "DISK": {files},
	}
	for _, program := range programs {
		checked := map[string]bool{}
		for _, h := range helps(t, program) {
			for name, value := range h.values {
				if value == "" || checked[name+value] {
					continue
				}
				checked[name+value] = true
				line := append(slices.Clone(h.path), "--"+name, "")
				t.Run(program+" "+strings.Join(line, " ")+value, func(t *testing.T) {
					t.Parallel()
					kind, _, _ := strings.Cut(value, "[")
					want, ok := want[kind]
					if !ok {
						want = []string{onlyWords}
					}
					if _, directive := complete(t, program, line...); !slices.Contains(want, directive) {
						t.Errorf("got directive %s, want one of %v", directive, want)
					}
				})
			}
		}
	}
}
