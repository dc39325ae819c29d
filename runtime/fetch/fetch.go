package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/disk"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/filelock"
)

// Why a store could not be fetched.
var (
	ErrServer = fault.New(fault.Other, "the server does not give the store",
		"look at the server and at the network; /etc/pinbox/node.env sets a proxy; the next run continues")
	ErrDigest = fault.New(fault.Damaged, "the server has another store than the configuration names",
		"put the store of this node's Ignition config on the server")
	ErrSpace = fault.New(fault.Space, "too little space for the store",
		"use a larger disk for /var; a live system without one has it in memory")
	ErrBusy = fault.New(fault.Busy, "another process fetches the store",
		"wait for it")
)

// Options of a fetch.
type Options struct {
	// URL of the store, and the file that it becomes.
	URL, File string
	// Size in bytes, and SHA-256 of the store.
	Size   int64
	Digest digest.Digest
	// Stall is how long the server may send less than Least bytes a second on average; 0 means a minute. With 0 for Least,
	// any byte will do.
	Stall time.Duration
	Least int64
	// Pause before the second attempt, which grows up to thirty times of it; 0 means a second.
	Pause time.Duration
	// Done is called with the bytes on the disk, of all, and Note with why an attempt failed; nil is fine.
	Done func(done, all int64)
	Note func(error)
}

// attempts is how many attempts in a row may give nothing, or less than a server must give while one lasts: with the
// pauses, that is three minutes of a server that refuses at once, such as one that starts later than the node, and up
// to ten of one that hangs.
const attempts = 10

// Store fetches the store, unless the file has it. A file that is there was complete and had the digest that is
// noted beside it.
func Store(ctx context.Context, o Options) (found bool, err error) {
	if o.fetched() {
		return true, nil
	}
	if err := o.resume(); err != nil {
		return false, err
	}
	part, err := os.OpenFile(o.File+".part", os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, err
	}
	defer part.Close()
	if err := filelock.Try(part); err != nil {
		return false, fmt.Errorf("%s: %w: %w", o.File, ErrBusy, err)
	}
	f := &fetcher{Options: o, part: part}
	if err := f.fetch(ctx); err != nil {
		return false, fmt.Errorf("%s: %w", o.URL, err)
	}
	return false, o.commit(part)
}

// fetched reports whether an earlier run has fetched this store.
func (o Options) fetched() bool {
	noted, err := os.ReadFile(o.note())
	if err != nil || string(noted) != o.Digest.String()+"\n" {
		return false
	}
	fi, err := os.Lstat(o.File)
	return err == nil && fi.Mode().IsRegular() && fi.Size() == o.Size
}

// resume makes a file that was not noted the beginning of the fetch: the node may have stopped before that.
func (o Options) resume() error {
	fi, err := os.Lstat(o.File)
	if err != nil || !fi.Mode().IsRegular() || fi.Size() != o.Size {
		return nil
	}
	return os.Rename(o.File, o.File+".part")
}

// note is the file with the digest of the one that was fetched, so that it need not be read at each boot.
func (o Options) note() string { return o.File + ".digest" }

// commit gives the file its name, and notes its digest.
func (o Options) commit(part *os.File) error {
	if err := os.Remove(o.note()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Rename(part.Name(), o.File); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(filepath.Dir(o.File)); err != nil {
		return err
	}
	_, err := atomicfile.Write(o.note(), []byte(o.Digest.String()+"\n"), 0o644)
	return err
}

// fetcher fetches into a file that an earlier run may have begun.
type fetcher struct {
	Options
	part *os.File
	have int64 // bytes at the beginning of part
	// plain is for a server that does not do ranges, or answers with other ones.
	plain bool
}

// fetch makes attempts until part has all bytes and the digest. Content that has another one is fetched once
// more: an interrupted fetch may have begun with that of an earlier release.
func (f *fetcher) fetch(ctx context.Context) error {
	fi, err := f.part.Stat()
	if err != nil {
		return err
	}
	begun := fi.Size() > 0
	if f.have = fi.Size(); f.have > f.Size {
		f.have = 0
	}
	for {
		if err := f.checkSpace(); err != nil {
			return err
		}
		if err := f.receive(ctx); err != nil {
			return err
		}
		err := f.verify(ctx)
		if err == nil || !errors.Is(err, ErrDigest) {
			return err
		}
		if err := errors.Join(f.part.Truncate(0), f.part.Sync()); err != nil {
			return err
		}
		if !begun {
			return err
		}
		f.say(err)
		begun, f.have = false, 0
	}
}

func (f *fetcher) checkSpace() error {
	space, err := disk.Measure(filepath.Dir(f.File))
	if err != nil {
		return err
	}
	if need := f.Size - f.have; space.Free < need {
		return fmt.Errorf("%w: it needs %s in %s, and %s are free",
			ErrSpace, bytesize.Format(need), filepath.Dir(f.File), bytesize.Format(space.Free))
	}
	return nil
}

// receive makes attempts until part has all bytes.
func (f *fetcher) receive(ctx context.Context) error {
	pause := f.Pause
	if pause == 0 {
		pause = time.Second
	}
	longest := 30 * pause
	most, enough := f.have, f.enough()
	for failed := 0; f.have < f.Size; {
		err := f.request(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil {
			continue
		}
		if errors.Is(err, errDisk) {
			return err
		}
		failed++
		if f.have >= most+enough {
			most, failed = f.have, 1
		}
		if failed == attempts {
			return fmt.Errorf("%w: %d attempts with too few new bytes: %w", ErrServer, failed, err)
		}
		f.say(err)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(min(pause<<(failed-1), longest)):
		}
	}
	return f.part.Sync()
}

func (f *fetcher) say(err error) {
	if f.Note != nil {
		f.Note(err)
	}
}

// verify reads part from the disk, and compares its digest.
func (f *fetcher) verify(ctx context.Context) error {
	if err := f.part.Truncate(f.Size); err != nil {
		return err
	}
	content := io.NewSectionReader(f.part, 0, f.Size)
	_, err := transfer.Copy(ctx, io.Discard, content, transfer.Content{Size: f.Size, Digest: f.Digest}, nil)
	if errors.Is(err, transfer.ErrDigest) {
		err = fmt.Errorf("%w: %w", ErrDigest, err)
	}
	return err
}
