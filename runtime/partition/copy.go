package partition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
)

// copier copies a store to a disk.
type copier struct {
	ctx         context.Context
	store, disk *os.File
	sum         digest.Digest
	done        func(done, all int64)
	erase       bool
	claim       *os.File // keeps others from the disk that is erased; nil without
	copied, all int64    // bytes written and read back
}

func (c *copier) install(diskSize int64) (Result, error) {
	t, err := c.readTable()
	if err != nil && (!c.erase || !errors.Is(err, ErrTable)) {
		return Result{}, err
	}
	fi, err := c.store.Stat()
	if err != nil {
		return Result{}, err
	}
	size := fi.Size()
	if e, ok := t.store(); ok {
		r, err := c.verifyExisting(e, t.SectorSize, size)
		if err == nil || !c.erase || !errors.Is(err, ErrTaken) {
			return r, err
		}
	}
	args := []string{"--append"}
	if c.erase {
		if t, err = c.newTable(); err != nil {
			return Result{}, err
		}
		args = []string{"--label", "gpt", "--wipe", "always", "--wipe-partitions", "never"}
	}
	e, err := t.allocate(diskSize, size)
	if err != nil {
		return Result{}, err
	}
	r := Result{Digest: c.sum.String(), Start: e.Start * t.SectorSize, Size: e.Size * t.SectorSize}
	c.all = 2 * size
	if err := c.write(r.Start, size); err != nil {
		return Result{}, err
	}
	if err := c.verify(r.Start, size); err != nil {
		return Result{}, err
	}
	// udev has the kernel read the table when sfdisk closes the disk, which the kernel refuses for one that is claimed.
	// A close that comes later udev may miss while it works on that one.
	if c.claim != nil {
		if err := c.claim.Close(); err != nil {
			return Result{}, err
		}
	}
	args = append(args, "--no-reread", "--no-tell-kernel", "--quiet", c.disk.Name())
	if _, err := sfdisk(c.ctx, e.script(), args...); err != nil {
		return Result{}, err
	}
	return r, c.disk.Sync()
}

func (c *copier) readTable() (table, error) {
	text, err := sfdisk(c.ctx, "", "--json", c.disk.Name())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return table{}, fmt.Errorf("%w: %w", ErrTable, err)
	}
	if err != nil {
		return table{}, err
	}
	return parseTable(text)
}

// newTable is an empty table for the disk.
func (c *copier) newTable() (table, error) {
	sector, err := unix.IoctlGetInt(int(c.disk.Fd()), unix.BLKSSZGET)
	return table{Label: "gpt", SectorSize: int64(sector)}, err
}

// verifyExisting verifies a partition that an earlier run has made.
func (c *copier) verifyExisting(e entry, sector, size int64) (Result, error) {
	r := Result{Digest: c.sum.String(), Start: e.Start * sector, Size: e.Size * sector, Found: true}
	c.all = size
	if r.Size < size {
		return Result{}, fmt.Errorf("%w, for another store: %s", ErrTaken, e.Node)
	}
	if err := c.verify(r.Start, size); err != nil {
		return Result{}, fmt.Errorf("%w, for another store: %s: %w", ErrTaken, e.Node, err)
	}
	return r, nil
}

// write copies the store, and compares the bytes that it reads with the digest.
func (c *copier) write(start, size int64) error {
	err := c.copy(io.NewOffsetWriter(c.disk, start), c.store, size)
	if errors.Is(err, transfer.ErrRead) || errors.Is(err, transfer.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrMedium, err)
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", c.store.Name(), err)
	}
	return c.disk.Sync()
}

// verify reads the store back from the disk itself, not from the page cache.
func (c *copier) verify(start, size int64) error {
	if err := unix.Fadvise(int(c.disk.Fd()), start, size, unix.FADV_DONTNEED); err != nil {
		return err
	}
	err := c.copy(io.Discard, io.NewSectionReader(c.disk, start, size), size)
	if errors.Is(err, transfer.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrDisk, err)
	}
	if err != nil {
		return fmt.Errorf("read the store back: %w", err)
	}
	return nil
}

// copy copies the store or reads it back, and reports the bytes of both.
func (c *copier) copy(to io.Writer, from io.Reader, size int64) error {
	before := c.copied
	_, err := transfer.Copy(c.ctx, to, from, transfer.Content{Size: size, Digest: c.sum}, func(bytes int64) {
		c.copied = before + bytes
		if c.done != nil {
			c.done(c.copied, c.all)
		}
	})
	return err
}
