package verify_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/storage/layout"
)

func TestIntactISOs(t *testing.T) {
	s := built(t)
	live := filepath.Join(s.live, artifact.ISOFile)
	for name, test := range map[string]struct {
		path string
		want verify.Result
	}{
		"live ISO":          {live, wantResult(t, s.live, layout.StoreFile, 6, nil)},
		"medium of a delta": {s.medium, wantResult(t, s.third, layout.DeltaStoreFile, 4, &verify.Delta{Layers: 3, Needs: 8})},
	} {
		t.Run(name, func(t *testing.T) {
			var seen steps
			got, err := verify.Release(t.Context(), test.path, verify.Options{Hooks: seen.hooks()})
			if err != nil {
				t.Fatal(err)
			}
			test.want.Dir = test.path
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			fi, err := os.Stat(test.path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"hash " + filepath.Base(test.path)}, seen.names); diff != "" ||
				seen.announced != fi.Size() {
				t.Errorf("got the steps %q of %d bytes, want one of %d", seen.names, seen.announced, fi.Size())
			}
		})
	}
}

func TestChangedISOs(t *testing.T) {
	s := built(t)
	live := filepath.Join(s.live, artifact.ISOFile)
	lock, err := os.ReadFile(filepath.Join(s.third, layout.LockFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		path     string
		old, new string
		resum    bool // the sum of the lock, which has old
		want     []string
	}{
		"store":           {s.medium, "hsqs", "hsqt", false, []string{"store.squashfs has changed: SHA-256 "}},
		"lock":            {s.medium, `"sets": [`, `"sets":[ `, false, []string{"lock.json has changed: SHA-256 "}},
		"live ISO's base": {live, "rootfsrootfs", "rootfsRootfs", false, []string{"base.iso has changed: SHA-256 "}},
		"sums without the lock": {s.medium, "  lock.json\n", "  lock.jsox\n", false, []string{
			"sums.txt has no entry for lock.json or store.squashfs", "lock.jsox",
		}},
		"sums without the store": {s.medium, "  store.squashfs\n", "  store.squashfx\n", false, []string{
			"sums.txt has no entry for lock.json or store.squashfs", "store.squashfx",
		}},
		"sums without the provenance": {s.medium, "  provenance.json\n", "  provenance.jsox\n", false, []string{
			"sums.txt has no entry for provenance.json", "provenance.jsox",
		}},
		"lock of another store": {s.medium, "PinnedImageSet/", "PinnedImageset/", true, []string{
			"the store has another pinbox.lock.json",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			content, err := os.ReadFile(test.path)
			if err != nil {
				t.Fatal(err)
			}
			content = bytes.Replace(content, []byte(test.old), []byte(test.new), 1)
			if test.resum {
				content = bytes.Replace(content, sumOf(lock),
					sumOf(bytes.Replace(lock, []byte(test.old), []byte(test.new), 1)), 1)
			}
			damaged := filepath.Join(t.TempDir(), "damaged.iso")
			if err := os.WriteFile(damaged, content, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err = artifactOf(t, damaged)
			wantProblem(t, err, test.want...)
		})
	}
}

// Programs that edit a finished ISO are named: nothing is damaged, and to copy it again does not help.
func TestISOsThatWereEditedAfterTheBuild(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(built(t).live, artifact.ISOFile))
	if err != nil {
		t.Fatal(err)
	}
	const applicationUse = 16*2048 + 883 // of the primary volume descriptor: ECMA-119, 8.4.32
	for name, edit := range map[string]struct {
		at   int
		text string
	}{
		"isohybrid":     {0, "\x45\x52\x08\x00isolinux"},
		"implantisomd5": {applicationUse, "ISO MD5SUM = 0123456789abcdef0123456789abcdef;SKIPSECTORS = 15"},
	} {
		t.Run(name, func(t *testing.T) {
			edited := filepath.Join(t.TempDir(), "edited.iso")
			after := bytes.Clone(content)
			copy(after[edit.at:], edit.text)
			if err := os.WriteFile(edited, after, 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := artifactOf(t, edited)
			wantProblem(t, err, "edited after pinbox made it, as by isohybrid or implantisomd5: edit the base, and build the ISO again")
		})
	}
}

func sumOf(content []byte) []byte {
	sum := sha256.Sum256(content)
	return []byte(hex.EncodeToString(sum[:]))
}

// Sums that sha256sum cannot read are an error before any file is checked.
func TestISOWithOtherSums(t *testing.T) {
	content, err := os.ReadFile(built(t).medium)
	if err != nil {
		t.Fatal(err)
	}
	damaged := filepath.Join(t.TempDir(), "damaged.iso")
	content = bytes.Replace(content, []byte("  lock.json\n"), []byte("x lock.json\n"), 1)
	if err := os.WriteFile(damaged, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if got, err := artifactOf(t, damaged); err == nil || got.Files != 0 {
		t.Errorf("got %+v, %v, want an error", got, err)
	}
}
