package partition_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/partition"
	"github.com/pinbox/pinbox/storage/layout"
)

const mib = 1 << 20

// writeMedium writes a store of size bytes and its sums into a folder, as on the mounted medium.
func writeMedium(t *testing.T, size int) (dir string, store []byte) {
	t.Helper()
	dir, store = t.TempDir(), make([]byte, size)
	if _, err := rand.NewChaCha8([32]byte{byte(size >> 12)}).Read(store); err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  config.ign\n%x  store.squashfs\n", sha256.Sum256(nil), sha256.Sum256(store))
	for name, content := range map[string][]byte{"store.squashfs": store, "sums.txt": []byte(sums)} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir, store
}

// writeDelta writes the store of a delta and its sums into a folder, as on its medium. A thin one is such a store, too.
func writeDelta(t *testing.T) (dir string) {
	t.Helper()
	dir, tree := t.TempDir(), t.TempDir()
	store := filepath.Join(dir, layout.MediumStore)
	fixtures.Run(t, "install", "-D", "/dev/null", filepath.Join(tree, layout.OwnDelta))
	fixtures.Run(t, "mksquashfs", tree, store, "-comp", "zstd", "-noappend", "-quiet", "-no-progress")
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	sums := fmt.Sprintf("%x  %s\n", sha256.Sum256(content), layout.MediumStore)
	if err := os.WriteFile(filepath.Join(dir, layout.MediumSums), []byte(sums), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newDisk makes a loop device of size bytes with the partitions of CoreOS. As their image has 64
// MiB, the backup table is not at the end of the disk.
func newDisk(t *testing.T, size int64) string {
	t.Helper()
	fixtures.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64*mib); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(fixtures.Need(t, "sfdisk"), "--quiet", file)
	cmd.Stdin = strings.NewReader("label: gpt\nlabel-id: 00000000-0000-4000-A000-000000000001\n" +
		"size=1MiB,name=BIOS-BOOT\nsize=8MiB,name=EFI-SYSTEM\nsize=8MiB,name=boot\nsize=32MiB,name=root\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v\n%s", err, out)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	return fixtures.LoopDevice(t, file)
}

// After an installation, sgdisk finds a valid table, and the partition has the store.
func TestInstall(t *testing.T) {
	t.Parallel()
	dir, store := writeMedium(t, 5*mib+4096)
	device := newDisk(t, 100*mib)
	var last, all int64
	o := partition.Options{Medium: dir, Disk: device, Done: func(d, a int64) { last, all = d, a }}
	r, err := partition.Install(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Start+r.Size != 99*mib || r.Size != 6*mib || r.Found || last != all || all != 2*int64(len(store)) {
		t.Errorf("got %+v, %d of %d bytes, want 6 MiB up to 99 MiB, %d bytes", r, last, all, 2*len(store))
	}
	content, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content[r.Start:r.Start+int64(len(store))], store) {
		t.Errorf("got other bytes at %d, want the store", r.Start)
	}
	if out := fixtures.Run(t, "sgdisk", "--verify", device); !strings.Contains(out, "No problems found") {
		t.Errorf("got %s, want no problems", out)
	}
	info := fixtures.Run(t, "sgdisk", "--info=128", device)
	for _, want := range []string{
		"Partition name: 'pinbox-store'", fmt.Sprintf("First sector: %d ", r.Start/512), "Linux filesystem",
	} {
		if !strings.Contains(info, want) {
			t.Errorf("got\n%s\nwant %q", info, want)
		}
	}
	if out := fixtures.Run(t, "sgdisk", "--print", device); !strings.Contains(out,
		"00000000-0000-4000-A000-000000000001") {
		t.Errorf("got\n%s\nwant the GUID of the image, which CoreOS replaces at the first boot", out)
	}
	// Ignition adds the partition of /var by the number that OpenShift documents for it.
	fixtures.Run(t, "sgdisk", "--new=5:0:+8M", "--change-name=5:var", device)
	if content, err = os.ReadFile(device); err != nil || !bytes.Equal(content[r.Start:r.Start+int64(len(store))], store) {
		t.Errorf("with /var: got other bytes, %v, at %d, want the store", err, r.Start)
	}
	// The second run finds the complete store, and writes nothing.
	if r, err = partition.Install(t.Context(), o); err != nil || !r.Found {
		t.Errorf("second run: got %+v, %v, want Found true", r, err)
	}
	after, err := os.ReadFile(device)
	if err != nil || !bytes.Equal(content, after) {
		t.Errorf("second run: got other bytes, %v, want the same", err)
	}
}

// After an error the partition table is unchanged, so no node mounts an incomplete store.
func TestInstallError(t *testing.T) {
	t.Parallel()
	valid, _ := writeMedium(t, 5*mib)
	damaged, store := writeMedium(t, 5*mib)
	store[4*mib]++
	if err := os.WriteFile(filepath.Join(damaged, "store.squashfs"), store, 0o644); err != nil {
		t.Fatal(err)
	}
	short, _ := writeMedium(t, 5*mib)
	if err := os.WriteFile(filepath.Join(short, "sums.txt"), []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	large, _ := writeMedium(t, 60*mib)
	cancelled, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx    context.Context
		medium string
		done   func(done, all int64)
		want   error
	}{
		"damaged medium": {t.Context(), damaged, nil, partition.ErrMedium},
		"no sum":         {t.Context(), short, nil, partition.ErrMedium},
		"no medium":      {t.Context(), t.TempDir(), nil, partition.ErrMedium},
		"a delta":        {t.Context(), writeDelta(t), nil, partition.ErrDelta},
		"no space":       {t.Context(), large, nil, partition.ErrSpace},
		"cancelled":      {cancelled, valid, func(int64, int64) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			device := newDisk(t, 100*mib)
			before := fixtures.Run(t, "sfdisk", "--json", device)
			_, err := partition.Install(c.ctx, partition.Options{Medium: c.medium, Disk: device, Done: c.done})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if after := fixtures.Run(t, "sfdisk", "--json", device); after != before {
				t.Errorf("got the table\n%s\nwant\n%s", after, before)
			}
		})
	}
}

func TestInstallToUnsuitableDisks(t *testing.T) {
	t.Parallel()
	dir, _ := writeMedium(t, mib)
	blank := newDisk(t, 100*mib)
	fixtures.Run(t, "sgdisk", "--zap-all", blank)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, mib), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: blank}); !errors.Is(err,
		partition.ErrTable) {
		t.Errorf("an empty disk: got %v, want %v", err, partition.ErrTable)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: file}); err == nil ||
		!strings.Contains(err.Error(), "is not a disk") {
		t.Errorf("a file: got %v, want that it is not a disk", err)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: "/dev/no-such"}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("no such device: got %v, want %v", err, os.ErrNotExist)
	}
	// The store of another appliance is not overwritten.
	taken := newDisk(t, 100*mib)
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: taken}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{mib - 4096, 2 * mib} {
		other, _ := writeMedium(t, size)
		if _, err := partition.Install(t.Context(), partition.Options{Medium: other, Disk: taken}); !errors.Is(err,
			partition.ErrTaken) {
			t.Errorf("%d bytes: got %v, want %v", size, err, partition.ErrTaken)
		}
	}
}

// Check finds a disk too small before a system is installed to it.
func TestCheck(t *testing.T) {
	t.Parallel()
	dir, _ := writeMedium(t, 5*mib)
	if err := partition.Check(partition.Options{Medium: dir, Disk: newDisk(t, 8<<30)}); !errors.Is(err, partition.ErrSpace) {
		t.Errorf("a disk as large as the system: got %v, want %v", err, partition.ErrSpace)
	}
	if err := partition.Check(partition.Options{Medium: dir, Disk: newDisk(t, 8<<30+5*mib)}); err != nil {
		t.Errorf("a disk with space for both: got %v, want no error", err)
	}
	if err := partition.Check(partition.Options{Medium: writeDelta(t), Disk: newDisk(t, 9<<30)}); !errors.Is(err, partition.ErrDelta) {
		t.Errorf("a delta: got %v, want %v", err, partition.ErrDelta)
	}
}
