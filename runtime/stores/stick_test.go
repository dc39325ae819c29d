package stores_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
)

// mebibyte is a little less than the smallest stores of a series have.
const mebibyte = 1 << 20

// image makes a file of so many bytes, for a file system.
func image(t *testing.T, bytes int64) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stick")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, bytes); err != nil {
		t.Fatal(err)
	}
	return name
}

// sticks make sticks of each file system with the files of a folder, and mount them on the node. FAT and exFAT are
// mounted by FUSE: a kernel may have neither.
var sticks = map[string]func(t *testing.T, s *testSystem, stick, from, to string){
	"FAT": func(t *testing.T, s *testSystem, stick, from, to string) {
		fixtures.Run(t, "mkfs.vfat", "-F", "32", stick)
		fixtures.Run(t, "sh", "-c", "mcopy -i "+stick+" "+from+"/* ::/")
		s.Run("fusefat", "-o", "ro", stick, to)
	},
	"exFAT": func(t *testing.T, s *testSystem, stick, from, to string) {
		fixtures.Run(t, "mkfs.exfat", stick)
		device := strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", stick))
		t.Cleanup(func() { fixtures.Run(t, "losetup", "--detach", device) })
		s.Run("mount.exfat-fuse", device, to)
		s.Run("sh", "-c", "cp "+from+"/* "+to)
	},
	"ext4": func(t *testing.T, s *testSystem, stick, from, to string) {
		fixtures.Run(t, "mkfs.ext4", "-q", stick)
		s.Run("mount", "-o", "loop", stick, to)
		s.Run("sh", "-c", "cp "+from+"/delta.squashfs "+to+"/site-7.squashfs && sed s/delta.squashfs/site-7.squashfs/ "+
			from+"/SHA256SUMS >"+to+"/SHA256SUMS")
	},
}

// A store comes on a stick: in parts on one with FAT, and on one with exFAT, as Ventoy makes it; and as a file of
// any name on one with ext4. It is copied, so the stick can go.
func TestAttachFromSticks(t *testing.T) {
	t.Parallel()
	s := newSystem(t, 4)
	for n, c := range []struct {
		stick string
		split bool
	}{{"FAT", true}, {"exFAT", true}, {"ext4", false}} {
		from := s.stores[n+1]
		if c.split {
			from = filepath.Join(t.TempDir(), "parts")
			if err := artifact.Medium(t.Context(), artifact.MediumOptions{
				Dir: s.stores[n+1], Out: from, Split: 2 * mebibyte,
			}); err != nil {
				t.Fatal(err)
			}
		}
		t.Run(c.stick, func(t *testing.T) {
			stick := t.TempDir()
			sticks[c.stick](t, s, image(t, 64*mebibyte), from, stick)
			defer s.Run("umount", stick)
			if c.split {
				s.wantExit(3, "cannot be used in place", "attach", "--in-place", stick)
			}
			s.mustRun("attach", stick)
			if out := s.mustRun("attach", stick).Out; !strings.Contains(out, "nothing was copied") {
				t.Errorf("again: got %q, want that it is known", out)
			}
		})
		s.wantPinned(n + 1)
		s.checkContainer(n + 1)
	}
}
