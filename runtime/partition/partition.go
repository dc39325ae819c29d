package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
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
	store, content, err := openStore(o.Medium)
	if err != nil {
		return err
	}
	defer store.Close()
	disk, size, err := openDisk(o.Disk, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer disk.Close()
	if size < content.Size+rootBytes {
		return fmt.Errorf("%s: %w: it has %s, the store %s, and the system needs %s",
			o.Disk, ErrSpace, bytesize.Format(size), bytesize.Format(content.Size), bytesize.Format(rootBytes))
	}
	return checkOtherDisks(disk, "/sys")
}

// Install writes the store to the end of a disk that has a system, reads it back, and only then
// adds a partition: so a partition is always complete. A run that was killed changes free space
// only. With Erase the disk needs no system, and nobody may use it.
func Install(ctx context.Context, o Options) (r Result, err error) {
	if o.Erase {
		if err := Check(o); err != nil {
			return r, err
		}
	}
	if o.Done == nil {
		o.Done = func(int64, int64) {}
	}
	store, content, err := openStore(o.Medium)
	if err != nil {
		return r, err
	}
	defer store.Close()
	disk, diskSize, err := openDisk(o.Disk, os.O_RDWR)
	if err != nil {
		return r, err
	}
	defer disk.Close()
	var claim *os.File // keeps others from the disk that is erased
	if o.Erase {       // fails for a disk of which something is mounted
		if claim, _, err = openDisk(o.Disk, os.O_RDONLY|unix.O_EXCL); err != nil {
			return r, err
		}
		defer claim.Close()
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", o.Disk, err)
		}
	}()
	readBack := func(start, before, all int64) error { // from the disk itself, not from the page cache
		if err := unix.Fadvise(int(disk.Fd()), start, content.Size, unix.FADV_DONTNEED); err != nil {
			return err
		}
		from := io.NewSectionReader(disk, start, content.Size)
		_, err := transfer.Copy(ctx, io.Discard, from, content, func(bytes int64) { o.Done(before+bytes, all) })
		if errors.Is(err, transfer.ErrDigest) {
			err = fault.Wrap(ErrDisk, err)
		}
		if err != nil {
			return fmt.Errorf("read the store back: %w", err)
		}
		return nil
	}

	// A partition that an earlier run has made is complete, or that of another store.
	t, err := readTable(ctx, o.Disk)
	if err != nil && (!o.Erase || !errors.Is(err, ErrTable)) {
		return r, err
	}
	r.Digest = content.Digest.String()
	if e, ok := t.store(); ok {
		r.Start, r.Size, r.Found = e.Start*t.SectorSize, e.Size*t.SectorSize, true
		if r.Size < content.Size {
			err = fmt.Errorf("%w, for another store: %s", ErrTaken, e.Node)
		} else if err = readBack(r.Start, 0, content.Size); err != nil {
			err = fmt.Errorf("%w, for another store: %s: %w", ErrTaken, e.Node, err)
		}
		if err == nil || !o.Erase {
			return r, err
		}
	}

	// The place of a new one.
	args := []string{"--append"}
	if o.Erase {
		sector, err := unix.IoctlGetInt(int(disk.Fd()), unix.BLKSSZGET)
		if err != nil {
			return r, err
		}
		t = table{Label: "gpt", SectorSize: int64(sector)}
		args = []string{"--label", "gpt", "--wipe", "always", "--wipe-partitions", "never"}
	}
	e, err := t.allocate(diskSize, content.Size)
	if err != nil {
		return r, err
	}
	r.Start, r.Size, r.Found = e.Start*t.SectorSize, e.Size*t.SectorSize, false

	// Its content.
	all := 2 * content.Size // bytes to write and to read back
	to := io.NewOffsetWriter(disk, r.Start)
	_, err = transfer.Copy(ctx, to, store.Bytes(), content, func(bytes int64) { o.Done(bytes, all) })
	if errors.Is(err, transfer.ErrRead) || errors.Is(err, transfer.ErrDigest) {
		err = fault.Wrap(ErrMedium, err)
	}
	if err != nil {
		return r, fmt.Errorf("copy %s: %w", store.Path, err)
	}
	if err := disk.Sync(); err != nil {
		return r, err
	}
	if err := readBack(r.Start, content.Size, all); err != nil {
		return r, err
	}

	// Its line of the table. udev has the kernel read the table when sfdisk closes the disk, which the kernel refuses for
	// one that is claimed. A close that comes later udev may miss while it works on that one.
	if claim != nil {
		if err := claim.Close(); err != nil {
			return r, err
		}
	}
	args = append(args, "--no-reread", "--no-tell-kernel", "--quiet", o.Disk)
	if _, err := sfdisk(ctx, e.script(), args...); err != nil {
		return r, err
	}
	return r, disk.Sync()
}

// openStore opens the store of a medium. Its size and digest are those that the copy must have; the digest is from the
// sums of the medium. It is no store of a delta: that is found out before anything is written, so before the digest is
// compared; a store that cannot be read is none, and its digest is wrong.
func openStore(medium string) (_ *release.Store, content transfer.Content, err error) {
	name := filepath.Join(medium, layout.MediumSums)
	sums, err := os.Open(name)
	if err != nil {
		return nil, content, fault.Wrap(ErrMedium, err)
	}
	defer sums.Close()
	if content.Digest, err = layout.FindSum(sums, layout.MediumStore); err != nil {
		return nil, content, fault.Wrap(ErrMedium, fmt.Errorf("%s: %w", name, err))
	}
	if content.Digest == "" {
		return nil, content, fmt.Errorf("%w: %s has no sum of %s", ErrMedium, name, layout.MediumStore)
	}
	file, err := os.Open(filepath.Join(medium, layout.MediumStore))
	if err != nil {
		return nil, content, fault.Wrap(ErrMedium, err)
	}
	if content.Size, err = file.Seek(0, io.SeekEnd); err != nil {
		return nil, content, errors.Join(err, file.Close())
	}
	store := release.NewStore(name, file.Name(), file, content.Size)
	if files, err := store.Files(); err == nil {
		if _, err = files.Lstat(layout.OwnDelta); err == nil {
			return nil, content, errors.Join(fmt.Errorf("%s: %w", store.Path, ErrDelta), store.Close())
		}
	}
	return store, content, nil
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
	slaves, _ := filepath.Glob(filepath.Join(sys, "dev/block", own[0], "slaves/*/dev")) // the paths of a multipath disk
	for _, file := range slaves {
		number, _ := os.ReadFile(file) // nothing, if that path was removed
		own = append(own, strings.TrimSpace(string(number)))
	}
	all, _ := filepath.Glob(filepath.Join(sys, "class/block/*/uevent"))
	for _, file := range all {
		text, _ := os.ReadFile(file) // nothing, if the device was removed
		if !bytes.Contains(text, []byte("\nPARTNAME="+layout.PartitionLabel+"\n")) {
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
