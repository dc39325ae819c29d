package partition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/layout"
)

// A store on another disk is refused. The test writes the files of /sys for two disks.
func TestCheckOtherDisks(t *testing.T) {
	null, err := os.Open("/dev/null") // any device: only its number counts
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(null.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	own := fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	for name, c := range map[string]struct {
		number string // of the disk that has the partition
		label  string
		taken  bool
	}{
		"an earlier installation on this disk": {own, layout.PartitionLabel, false},
		"a store on another disk":              {"8:16", layout.PartitionLabel, true},
		"a path of the same disk":              {"8:32", layout.PartitionLabel, false},
		"something else on another disk":       {"8:16", "boot", false},
		"a longer name":                        {"8:16", layout.PartitionLabel + "2", false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			part := filepath.Join(dir, "devices/sdb/sdb1")
			blocks := filepath.Join(dir, "class/block")
			for _, err := range []error{
				os.MkdirAll(part, 0o755), os.MkdirAll(blocks, 0o755), os.Symlink(part, filepath.Join(blocks, "sdb1")),
				os.WriteFile(filepath.Join(part, "uevent"), []byte("MAJOR=8\nDEVTYPE=partition\nPARTN=1\nPARTNAME="+c.label+"\n"),
					0o644),
				os.WriteFile(filepath.Join(dir, "devices/sdb/dev"), []byte(c.number+"\n"), 0o644),
				os.MkdirAll(filepath.Join(dir, "dev/block", own, "slaves/sdc"), 0o755),
				os.WriteFile(filepath.Join(dir, "dev/block", own, "slaves/sdc/dev"), []byte("8:32\n"), 0o644),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			err := checkOtherDisks(null, dir)
			if errors.Is(err, ErrTaken) != c.taken || c.taken && !strings.Contains(err.Error(), "/dev/sdb1") {
				t.Errorf("got %v, want ErrTaken: %v", err, c.taken)
			}
		})
	}
}
