package verify_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
)

// All layers of an appliance, of a delta with its bases, and of their ISOs are read again.
func TestLayersAreReadAgain(t *testing.T) {
	s := built(t)
	for name, names := range map[string][]string{
		"appliance": {s.base}, "live ISO": {filepath.Join(s.live, artifact.ISOFile)}, "medium": {s.medium},
		"delta with bases": {s.third, s.second, s.base},
	} {
		t.Run(name, func(t *testing.T) {
			if n, err := verify.Layers(t.Context(), names, progress.Hooks{}); n == 0 || err != nil {
				t.Errorf("got %d layers, %v, want some and no error", n, err)
			}
		})
	}
}

// A store with other content than its records say is found, although its file has no damage.
func TestStoreWithOtherContent(t *testing.T) {
	fixtures.NeedRoot(t) // unsquashfs writes trusted attributes
	fixtures.Need(t, "unsquashfs", "mksquashfs")
	dir := copied(t, built(t).base)
	shell(t, dir, `unsquashfs -quiet -no-progress -dest tree store.squashfs
		file=$(find tree/overlay/*/diff -type f -size +0 | head -1)
		printf X | dd status=none of="$file" conv=notrunc
		mksquashfs tree store.squashfs -noappend -quiet -no-progress
		rm -r tree`)
	if _, err := verify.Layers(t.Context(), []string{dir}, progress.Hooks{}); !errors.Is(err, release.ErrVerify) {
		t.Errorf("got %v, want %v", err, release.ErrVerify)
	}
}

// Without a squashfs there is nothing that can be read.
func TestNoLayersToRead(t *testing.T) {
	dir := copied(t, built(t).base)
	if err := os.Rename(filepath.Join(dir, layout.StoreFile), filepath.Join(dir, "store")); err != nil {
		t.Fatal(err)
	}
	if _, err := verify.Layers(t.Context(), []string{dir}, progress.Hooks{}); !errors.Is(err, verify.ErrNoLayers) {
		t.Errorf("got %v, want %v", err, verify.ErrNoLayers)
	}
}
