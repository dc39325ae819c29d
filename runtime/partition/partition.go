package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Errors of the medium and the disk.
var (
	ErrMedium = fault.New(fault.Damaged, "the medium is damaged",
		"check the ISO with `pinbox verify`, and write the medium again")
	ErrDisk = fault.New(fault.Damaged, "the disk returns other bytes than were written",
		"replace the disk")
	ErrNoDisk = fault.New(fault.Input, "is not a disk",
		"run it as root; `lsblk` lists the disks")
	ErrInUse = fault.New(fault.Input, "the disk is in use, and would be erased",
		"name another disk, or unmount what `lsblk` shows of this one")
	// ErrDelta is for the store of a delta: in the partition, it would be alone.
	ErrDelta = fault.New(fault.Input,
		"the medium has a delta, of which a node can only use the images with the stores below it",
		"`pinbox-node attach` takes it, once the node runs; install with a medium that `pinbox build` makes")
)

// rootBytes is the least size of a root file system of Fedora CoreOS: its documentation,
// "Configuring Storage". The boot partitions are small.
const rootBytes = 8 << 30

// Options of an installation.
type Options struct {
	// Medium is the folder with the store and its sums.
	Medium string
	// Disk is the device.
	Disk string
	// Erase makes a new partition table with the store's partition alone, for a system that is
	// installed later and keeps this partition. All else on the disk is lost.
	Erase bool
	// Done is called with the bytes that were written and read back, of all; nil is fine.
	Done func(done, all int64)
}

// Result of an installation.
type Result struct {
	// Digest of the store.
	Digest string
	// Start and Size of its partition in bytes.
	Start, Size int64
	// Found reports that an earlier run had made the partition.
	Found bool
}

// Check returns an error if the store cannot fit on the disk. It is called before a system is
// installed, since the installation overwrites the disk.
func Check(o Options) error {
	store, _, err := openStore(o.Medium)
	if err != nil {
		return err
	}
	defer store.Close()
	disk, size, err := openDisk(o.Disk, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer disk.Close()
	fi, err := store.Stat()
	if err != nil {
		return err
	}
	if size < fi.Size()+rootBytes {
		return fmt.Errorf("%s: %w: it has %s, the store %s, and the system needs %s",
			o.Disk, ErrSpace, bytesize.Format(size), bytesize.Format(fi.Size()), bytesize.Format(rootBytes))
	}
	return checkOtherDisks(disk, "/sys")
}

// Install writes the store to the end of a disk that has a system, reads it back, and only then
// adds a partition: so a partition is always complete. A run that was killed changes free space
// only. With Erase the disk needs no system, and nobody may use it.
func Install(ctx context.Context, o Options) (Result, error) {
	if o.Erase {
		if err := Check(o); err != nil {
			return Result{}, err
		}
	}
	store, sum, err := openStore(o.Medium)
	if err != nil {
		return Result{}, err
	}
	defer store.Close()
	disk, size, err := openDisk(o.Disk, os.O_RDWR)
	if err != nil {
		return Result{}, err
	}
	defer disk.Close()
	c := copier{ctx: ctx, disk: disk, store: store, sum: sum, done: o.Done, erase: o.Erase}
	if o.Erase { // fails for a disk of which something is mounted
		if c.claim, _, err = openDisk(o.Disk, os.O_RDONLY|unix.O_EXCL); err != nil {
			return Result{}, err
		}
		defer c.claim.Close()
	}
	r, err := c.install(size)
	if err != nil {
		return Result{}, fmt.Errorf("%s: %w", o.Disk, err)
	}
	return r, nil
}

// openStore also returns the digest of the store, from the sums of the medium.
func openStore(medium string) (_ *os.File, sum digest.Digest, err error) {
	name := filepath.Join(medium, layout.MediumSums)
	sums, err := os.Open(name)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMedium, err)
	}
	defer sums.Close()
	sum, err = layout.FindSum(sums, layout.MediumStore)
	if err != nil {
		return nil, "", fmt.Errorf("%w: %s: %w", ErrMedium, name, err)
	}
	if sum == "" {
		return nil, "", fmt.Errorf("%w: %s has no sum of %s", ErrMedium, name, layout.MediumStore)
	}
	store, err := os.Open(filepath.Join(medium, layout.MediumStore))
	if err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrMedium, err)
	}
	if isDelta(store) {
		return nil, "", errors.Join(fmt.Errorf("%s: %w", store.Name(), ErrDelta), store.Close())
	}
	return store, sum, nil
}

// isDelta reports whether a store is that of a delta. It tells before anything is written, so before the sum is
// compared; a store that cannot be read is none, and its sum is wrong.
func isDelta(store *os.File) bool {
	fi, err := store.Stat()
	if err != nil {
		return false
	}
	files, err := squashfs.OpenImage(store, fi.Size())
	if err != nil {
		return false
	}
	_, err = files.Lstat(layout.OwnDelta)
	return err == nil
}

// openDisk also returns the size of the disk in bytes.
func openDisk(name string, flags int) (_ *os.File, size int64, err error) {
	disk, err := os.OpenFile(name, flags, 0)
	if errors.Is(err, unix.EBUSY) {
		return nil, 0, fmt.Errorf("%s: %w", name, ErrInUse)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("%s %w: %w", name, ErrNoDisk, err)
	}
	fi, err := disk.Stat()
	if err == nil && (fi.Mode()&fs.ModeDevice == 0 || fi.Mode()&fs.ModeCharDevice != 0) {
		err = fmt.Errorf("%s %w", name, ErrNoDisk)
	}
	if err == nil {
		size, err = disk.Seek(0, io.SeekEnd)
	}
	if err != nil {
		return nil, 0, errors.Join(err, disk.Close())
	}
	return disk, size, nil
}

// checkOtherDisks returns an ErrTaken if another disk has a partition with the store's label: the
// node mounts by label, and could take either.
func checkOtherDisks(disk *os.File, sys string) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(disk.Fd()), &st); err != nil {
		return err
	}
	own := []string{fmt.Sprintf("%d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))}
	// The paths of a multipath disk.
	slaves, err := filepath.Glob(filepath.Join(sys, "dev/block", own[0], "slaves/*/dev"))
	if err != nil {
		return err
	}
	for _, file := range slaves {
		if number, err := os.ReadFile(file); err == nil {
			own = append(own, strings.TrimSpace(string(number)))
		}
	}
	all, err := filepath.Glob(filepath.Join(sys, "class/block/*/uevent"))
	if err != nil {
		return err
	}
	for _, file := range all {
		text, err := os.ReadFile(file)
		if err != nil || !bytes.Contains(text, []byte("\nPARTNAME="+layout.PartitionLabel+"\n")) {
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(file))
		if err != nil {
			continue // the device was removed
		}
		number, err := os.ReadFile(filepath.Join(filepath.Dir(dir), "dev")) // of its disk
		if err == nil && !slices.Contains(own, strings.TrimSpace(string(number))) {
			return fmt.Errorf("%w, on another disk: /dev/%s", ErrTaken, filepath.Base(dir))
		}
	}
	return nil
}

// sfdisk runs sfdisk(8), which every CoreOS has to grow its root partition.
func sfdisk(ctx context.Context, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sfdisk", args...)
	var out, problems bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(script), &out, &problems
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("sfdisk: %w: %s", err, bytes.TrimSpace(problems.Bytes()))
	}
	return out.Bytes(), nil
}
