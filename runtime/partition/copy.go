package partition

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"
)

// copier brings a store to a disk.
type copier struct {
	ctx         context.Context
	store, disk *os.File
	sum         string
	done        func(done, all int64)
	behind, all int64
}

func (c *copier) install(diskSize int64) (Result, error) {
	text, err := sfdisk(c.ctx, "", "--json", c.disk.Name())
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return Result{}, fmt.Errorf("%w: %w", ErrTable, err)
	}
	if err != nil {
		return Result{}, err
	}
	t, err := parseTable(text)
	if err != nil {
		return Result{}, err
	}
	fi, err := c.store.Stat()
	if err != nil {
		return Result{}, err
	}
	size := fi.Size()
	if there, ok := t.named(); ok {
		return c.found(there, t.SectorSize, size)
	}
	e, err := t.place(diskSize, size)
	if err != nil {
		return Result{}, err
	}
	r := Result{Digest: "sha256:" + c.sum, Start: e.Start * t.SectorSize, Size: e.Size * t.SectorSize}
	c.all = 2 * size
	if err := c.write(r.Start, size); err != nil {
		return Result{}, err
	}
	if err := c.verify(r.Start, size); err != nil {
		return Result{}, err
	}
	if _, err := sfdisk(c.ctx, e.script(), "--append", "--no-reread", "--no-tell-kernel", "--quiet", c.disk.Name()); err != nil {
		return Result{}, err
	}
	return r, c.disk.Sync()
}

// found is content with a partition that an earlier run has made.
func (c *copier) found(e entry, sector, size int64) (Result, error) {
	r := Result{Digest: "sha256:" + c.sum, Start: e.Start * sector, Size: e.Size * sector, Found: true}
	c.all = size
	if r.Size < size {
		return Result{}, fmt.Errorf("%w, for another store: %s", ErrTaken, e.Node)
	}
	if err := c.verify(r.Start, size); err != nil {
		return Result{}, fmt.Errorf("%w, for another store: %s: %w", ErrTaken, e.Node, err)
	}
	return r, nil
}

// write copies the store, and compares what it read with the sum.
func (c *copier) write(start, size int64) error {
	sum, err := c.copy(io.NewOffsetWriter(c.disk, start), c.store, size)
	if err != nil {
		return fmt.Errorf("copy %s: %w", c.store.Name(), err)
	}
	if sum != c.sum {
		return fmt.Errorf("%w: %s has SHA-256 %s; it was %s", ErrMedium, c.store.Name(), sum, c.sum)
	}
	return c.disk.Sync()
}

// verify reads from the disk itself, not from memory.
func (c *copier) verify(start, size int64) error {
	if err := unix.Fadvise(int(c.disk.Fd()), start, size, unix.FADV_DONTNEED); err != nil {
		return err
	}
	sum, err := c.copy(io.Discard, io.NewSectionReader(c.disk, start, size), size)
	if err != nil {
		return fmt.Errorf("read the store again: %w", err)
	}
	if sum != c.sum {
		return fmt.Errorf("%w: SHA-256 %s; it was %s", ErrDisk, sum, c.sum)
	}
	return nil
}

// copy gives the SHA-256 of size bytes on their way.
func (c *copier) copy(to io.Writer, from io.Reader, size int64) (string, error) {
	h := sha256.New()
	buffer := make([]byte, 4<<20)
	for left := size; left > 0; {
		if err := c.ctx.Err(); err != nil {
			return "", err
		}
		part := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(from, part); err != nil {
			if from == c.store {
				err = fmt.Errorf("%w: %w", ErrMedium, err)
			}
			return "", err
		}
		h.Write(part)
		if _, err := to.Write(part); err != nil {
			return "", err
		}
		left -= int64(len(part))
		c.behind += int64(len(part))
		if c.done != nil {
			c.done(c.behind, c.all)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
