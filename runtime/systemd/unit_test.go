package systemd

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores/mount"
)

// The unit of a delta is valid for systemd-analyze.
func TestGoldenUnit(t *testing.T) {
	m := mount.Mount{
		What: "/dev/sr0", Where: "/var/lib/pinbox/stores/2", Options: []string{
			"ro", "nosuid", "nodev", "loop", "offset=55296", "sizelimit=4096",
			`context="system_u:object_r:container_ro_file_t:s0"`,
		},
		Bases:       []string{"/var/lib/pinbox/stores/0", "/var/lib/pinbox/stores/1"},
		Description: "edge 100%\n[Install] 0123456789ab",
	}
	text, err := render(m)
	if err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "var-lib-pinbox-stores-2.mount", []byte(text))
	dir := t.TempDir()
	for name, text := range map[string]string{
		unitName(m.Where): text, "var-lib-pinbox-stores-0.mount": base("0"), "var-lib-pinbox-stores-1.mount": base("1"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(fixtures.Need(t, "systemd-analyze"), "verify", "--man=no",
		filepath.Join(dir, unitName(m.Where))).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("got %v, want no problems\n%s", err, out)
	}
}

func base(slot string) string {
	return "[Mount]\nWhat=/srv/" + slot + "\nWhere=/var/lib/pinbox/stores/" + slot + "\n"
}

// A path that a unit would interpret in another way is refused.
func TestUnitPathWithSpecialCharacters(t *testing.T) {
	for _, path := range []string{"/srv/50% off/store", "/srv/a\nOptions=rw", "store"} {
		if _, err := render(mount.Mount{What: path, Where: "/var/lib/pinbox/stores/1"}); !errors.Is(err, ErrPath) {
			t.Errorf("%q: got %v, want %v", path, err, ErrPath)
		}
	}
}
