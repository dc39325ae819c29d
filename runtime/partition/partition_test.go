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
)

const mib = 1 << 20

// medium is a folder as the live system finds it.
func medium(t *testing.T, size int) (dir string, store []byte) {
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

// disk is a loop device of size bytes, to which an image of 64 MiB with CoreOS's
// partitions was written: its second table is not at the end.
func disk(t *testing.T, size int64) string {
	t.Helper()
	fixtures.NeedRoot(t)
	file := filepath.Join(t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64*mib); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sfdisk", "--quiet", file)
	cmd.Stdin = strings.NewReader("label: gpt\nlabel-id: 00000000-0000-4000-A000-000000000001\n" +
		"size=1MiB,name=BIOS-BOOT\nsize=8MiB,name=EFI-SYSTEM\nsize=8MiB,name=boot\nsize=32MiB,name=root\n")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("sfdisk: %v\n%s", err, out)
	}
	if err := os.Truncate(file, size); err != nil {
		t.Fatal(err)
	}
	device := strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", file))
	t.Cleanup(func() { fixtures.Run(t, "losetup", "--detach", device) })
	return device
}

// sgdisk finds the table in order, and the partition with the store in it.
func TestInstall(t *testing.T) {
	dir, store := medium(t, 5*mib+4096)
	device := disk(t, 200*mib)
	var last, all int64
	o := partition.Options{Medium: dir, Disk: device, Done: func(d, a int64) { last, all = d, a }}
	r, err := partition.Install(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if r.Start+r.Size != 199*mib || r.Size != 6*mib || r.Found || last != all || all != 2*int64(len(store)) {
		t.Errorf("%+v, %d of %d bytes", r, last, all)
	}
	content, err := os.ReadFile(device)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content[r.Start:r.Start+int64(len(store))], store) {
		t.Error("the store is not where the result says")
	}
	if out := fixtures.Run(t, "sgdisk", "--verify", device); !strings.Contains(out, "No problems found") {
		t.Error(out)
	}
	info := fixtures.Run(t, "sgdisk", "--info=5", device)
	for _, want := range []string{
		"Partition name: 'pinbox-store'", fmt.Sprintf("First sector: %d ", r.Start/512), "Linux filesystem",
	} {
		if !strings.Contains(info, want) {
			t.Errorf("sgdisk does not say %q:\n%s", want, info)
		}
	}
	if out := fixtures.Run(t, "sgdisk", "--print", device); !strings.Contains(out,
		"00000000-0000-4000-A000-000000000001") {
		t.Errorf("CoreOS gives a disk with this GUID another on its first boot, and now it is gone:\n%s", out)
	}
	// The second run finds it whole, and writes nothing.
	if r, err = partition.Install(t.Context(), o); err != nil || !r.Found {
		t.Errorf("%+v, %v", r, err)
	}
	after, err := os.ReadFile(device)
	if err != nil || !bytes.Equal(content, after) {
		t.Errorf("the second run has written: %v", err)
	}
}

// Whatever goes wrong, the table stays as it was, so no node mounts half a store.
func TestInstallFails(t *testing.T) {
	whole, _ := medium(t, 5*mib)
	damaged, store := medium(t, 5*mib)
	store[4*mib]++
	if err := os.WriteFile(filepath.Join(damaged, "store.squashfs"), store, 0o644); err != nil {
		t.Fatal(err)
	}
	short, _ := medium(t, 5*mib)
	if err := os.WriteFile(filepath.Join(short, "sums.txt"), []byte("nothing\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	large, _ := medium(t, 150*mib)
	cancelled, cancel := context.WithCancel(t.Context())
	for name, c := range map[string]struct {
		ctx    context.Context
		medium string
		done   func(done, all int64)
		want   error
	}{
		"damaged medium":    {t.Context(), damaged, nil, partition.ErrMedium},
		"no sum":            {t.Context(), short, nil, partition.ErrMedium},
		"no medium":         {t.Context(), t.TempDir(), nil, partition.ErrMedium},
		"no space":          {t.Context(), large, nil, partition.ErrSpace},
		"killed on its way": {cancelled, whole, func(int64, int64) { cancel() }, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			device := disk(t, 200*mib)
			before := fixtures.Run(t, "sfdisk", "--json", device)
			_, err := partition.Install(c.ctx, partition.Options{Medium: c.medium, Disk: device, Done: c.done})
			if !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
			if after := fixtures.Run(t, "sfdisk", "--json", device); after != before {
				t.Errorf("the table has changed:\n%s", after)
			}
		})
	}
}

func TestInstallToWhatIsNoDiskOfCoreOS(t *testing.T) {
	dir, _ := medium(t, mib)
	blank := disk(t, 100*mib)
	fixtures.Run(t, "sgdisk", "--zap-all", blank)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, make([]byte, mib), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: blank}); !errors.Is(err,
		partition.ErrTable) {
		t.Errorf("a blank disk: %v", err)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: file}); err == nil ||
		!strings.Contains(err.Error(), "is not a disk") {
		t.Errorf("a file: %v", err)
	}
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: "/dev/no-such"}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("nothing: %v", err)
	}
	// Another appliance's store is not written over.
	taken := disk(t, 100*mib)
	if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: taken}); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{mib - 4096, 2 * mib} {
		other, _ := medium(t, size)
		if _, err := partition.Install(t.Context(), partition.Options{Medium: other, Disk: taken}); !errors.Is(err,
			partition.ErrTaken) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// The disk is asked before a system is installed to it.
func TestCheck(t *testing.T) {
	dir, _ := medium(t, 5*mib)
	if err := partition.Check(partition.Options{Medium: dir, Disk: disk(t, 8<<30)}); !errors.Is(err, partition.ErrSpace) {
		t.Errorf("a disk that is as large as the system: %v", err)
	}
	if err := partition.Check(partition.Options{Medium: dir, Disk: disk(t, 8<<30+5*mib)}); err != nil {
		t.Error(err)
	}
}
