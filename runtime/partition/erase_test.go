package partition_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/partition"
)

// The store is put on a disk before a system is installed there, whatever the disk had. An installer that keeps
// the partition finds it behind its own, and the second run then only verifies it; after one that does not keep
// it, the second run makes it again.
func TestStoreBeforeTheSystem(t *testing.T) {
	t.Parallel()
	dir, store := writeMedium(t, 5*mib+4096)
	o := partition.Options{Medium: dir, Disk: newDisk(t, 9<<30), Erase: true}
	r, err := partition.Install(t.Context(), o)
	if err != nil || r.Found {
		t.Fatalf("got %+v, %v, want a new partition", r, err)
	}
	if out := fixtures.Run(t, "sgdisk", "--verify", o.Disk); !strings.Contains(out, "No problems found") {
		t.Errorf("got %s, want no problems", out)
	}
	if names := partitions(t, o.Disk); names != "pinbox-store" {
		t.Errorf("got the partitions %q, want that of the store alone", names)
	}
	if r, err = partition.Install(t.Context(), o); err != nil || !r.Found {
		t.Errorf("again: got %+v, %v, want that it is found", r, err)
	}

	// coreos-installer: its image, and the partition that it kept.
	kept := partition.Options{Medium: dir, Disk: o.Disk}
	installOver(t, o.Disk, r)
	if again, err := partition.Install(t.Context(), kept); err != nil || !again.Found || again.Start != r.Start {
		t.Errorf("kept: got %+v, %v, want %+v", again, err, r)
	}
	installOver(t, o.Disk, partition.Result{})
	again, err := partition.Install(t.Context(), kept)
	if err != nil || again.Found {
		t.Errorf("not kept: got %+v, %v, want a new partition", again, err)
	}
	if names := partitions(t, o.Disk); names != "boot root pinbox-store" {
		t.Errorf("got the partitions %q, want those of the system and the store", names)
	}
	disk, err := os.Open(o.Disk)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	got := make([]byte, len(store))
	if _, err := disk.ReadAt(got, again.Start); err != nil || !bytes.Equal(got, store) {
		t.Errorf("got other bytes, %v, at %d, want the store", err, again.Start)
	}
}

// installOver writes the partition table of a system, with the store's partition unless it is zero.
func installOver(t *testing.T, disk string, store partition.Result) {
	t.Helper()
	args := []string{"--zap-all", "--new=1:0:+8M", "--change-name=1:boot", "--new=2:0:+32M", "--change-name=2:root"}
	if store.Size > 0 {
		start, end := store.Start/512, (store.Start+store.Size)/512-1
		args = append(args, "--new=3:"+strconv.FormatInt(start, 10)+":"+strconv.FormatInt(end, 10),
			"--change-name=3:pinbox-store")
	}
	fixtures.Run(t, "sgdisk", append(args, disk)...)
}

func partitions(t *testing.T, disk string) string {
	t.Helper()
	var names []string
	for _, line := range strings.Split(fixtures.Run(t, "sfdisk", "--dump", disk), "\n") {
		if _, name, found := strings.Cut(line, `name="`); found {
			names = append(names, strings.TrimSuffix(name, `"`))
		}
	}
	return strings.Join(names, " ")
}

// A disk of which something is mounted is not erased, and neither is one that is too small.
func TestErasesNoDiskInUse(t *testing.T) {
	t.Parallel()
	dir, _ := writeMedium(t, 5*mib)
	used := newDisk(t, 9<<30)
	fixtures.Run(t, "mkfs.ext4", "-q", "-F", used)
	mount := filepath.Join(t.TempDir(), "mount")
	if err := os.Mkdir(mount, 0o755); err != nil {
		t.Fatal(err)
	}
	fixtures.Run(t, "mount", used, mount)
	defer fixtures.Run(t, "umount", mount)
	small := newDisk(t, 100*mib)
	for disk, want := range map[string]error{used: partition.ErrInUse, small: partition.ErrSpace} {
		before := fixtures.Run(t, "sha256sum", "--", small)
		if _, err := partition.Install(t.Context(), partition.Options{Medium: dir, Disk: disk, Erase: true}); !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if after := fixtures.Run(t, "sha256sum", "--", small); after != before {
			t.Errorf("%v: the disk has changed", want)
		}
	}
}
