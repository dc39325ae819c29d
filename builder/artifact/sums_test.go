package artifact_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
)

// FUSE and NFS keep a removed file, which is still open, under another name. A bug was to list it in SHA256SUMS, so
// that `pinbox verify` missed it as soon as the build had ended.
func TestSumsOfRemovedFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"store.squashfs", ".fuse_hidden0000000500000001", ".nfs000000000000002a00000001"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sums := layout.Sums{}
	if err := artifact.SumTree(t.Context(), dir, "", sums, progress.Hooks{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"store.squashfs"}, slices.Sorted(maps.Keys(sums))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
