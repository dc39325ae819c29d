package verify_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/verify"
)

// splitOf splits the store of a folder in parts of 1 MiB.
func splitOf(t *testing.T, dir string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "parts")
	if err := artifact.Medium(t.Context(), artifact.MediumOptions{Dir: dir, Out: out, Split: 2 << 20}); err != nil {
		t.Fatal(err)
	}
	return out
}

// The parts of a store are verified as one, with its hash tree; also those of an appliance with an ISO.
func TestVerifyParts(t *testing.T) {
	s := built(t)
	for name, dir := range map[string]string{"appliance": s.base, "delta": s.second, "with an ISO": s.live} {
		t.Run(name, func(t *testing.T) {
			want, err := artifactOf(t, dir)
			if err != nil {
				t.Fatal(err)
			}
			var progress steps
			got, err := verify.Release(t.Context(), splitOf(t, dir), verify.Options{Hooks: progress.hooks()})
			if err != nil {
				t.Fatal(err)
			}
			if got.StoreDigest != want.StoreDigest || got.StoreRootHash != want.StoreRootHash || got.Totals != want.Totals ||
				got.StoreSize != want.StoreSize {
				t.Errorf("got %+v, want the store of %+v", got, want)
			}
			if len(got.Unchecked) != 1 || !strings.Contains(got.Unchecked[0], "in parts") {
				t.Errorf("got the unchecked %q, want the records of the store", got.Unchecked)
			}
			if progress.got != progress.announced || !slices.ContainsFunc(progress.names, func(step string) bool {
				return strings.HasPrefix(step, "hash the parts of ")
			}) {
				t.Errorf("got %d bytes of %d in the steps %q", progress.got, progress.announced, progress.names)
			}
		})
	}
}

// The parts are on a stick that has files of others, which are not read.
func TestVerifyOnAStick(t *testing.T) {
	dir := copied(t, splitOf(t, built(t).base))
	shell(t, dir, "mkdir -p 'System Volume Information/x'; echo x >notes.txt; mkfifo pipe")
	got, err := artifactOf(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	if want := "3 other files and folders, which are not in SHA256SUMS"; !slices.Contains(got.Unchecked, want) {
		t.Errorf("got the unchecked %q, want %q too", got.Unchecked, want)
	}
}

func TestVerifyFindsDamagedParts(t *testing.T) {
	parts := splitOf(t, built(t).base)
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"a byte": {
			"printf x | dd of=store.squashfs.002 bs=1 seek=1000 conv=notrunc status=none",
			[]string{"store.squashfs has changed", "hash tree"},
		},
		"missing":              {"rm store.squashfs.002", []string{"store.squashfs has changed", "hash tree"}},
		"the first is missing": {"rm store.squashfs.001", []string{"store.squashfs.001: no such file", "store.squashfs is missing"}},
		"another order": {"mv store.squashfs.001 x; mv store.squashfs.002 store.squashfs.001; mv x store.squashfs.002",
			[]string{"store.squashfs has changed", "hash tree"}},
		"whole, too": {"echo x >store.squashfs", []string{"store.squashfs is there in parts, and as one file"}},
		"root hash":  {"echo x >store.roothash", []string{"store.roothash has changed"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := copied(t, parts)
			shell(t, dir, c.script)
			_, err := artifactOf(t, dir)
			wantProblem(t, err, c.want...)
		})
	}
}
