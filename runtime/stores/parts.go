package stores

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// ErrInParts is returned for a store of `pinbox medium --split` that is attached in place, or in a dry run.
var ErrInParts = fault.New(fault.Input, "the store is in parts, which can only be copied",
	"attach it without --in-place and --dry-run, or join the parts: cat NAME.* >NAME")

// maxEntries is how many entries of a folder are read to find a store: those of a stick with other files, of
// which a hostile one could list any number.
const maxEntries = 10_000

// filesIn lists the files in a folder to find a store among them; none in a folder that does not exist.
func filesIn(dir string) ([]string, error) {
	names, err := transfer.Within(transfer.ReadDeadline, dir, func() ([]string, error) {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, fault.Ignore(err, fs.ErrNotExist)
		}
		defer f.Close()
		names, err := f.Readdirnames(maxEntries)
		if errors.Is(err, io.EOF) { // an empty folder
			err = nil
		}
		return names, err
	}, nil)
	if len(names) == maxEntries {
		return nil, fmt.Errorf("%s: %w: it has more than %d files; name that of the store", dir, ErrNoStore, maxEntries-1)
	}
	return names, err
}

// hasParts reports whether a file is missing, and there are parts of it.
func hasParts(name string) bool {
	_, whole := stat(name)
	_, first := stat(layout.PartName(name, 1))
	return errors.Is(whole, fs.ErrNotExist) && first == nil
}

// openParts opens a store in parts. Nothing of them is trusted: the digest or the signature of the whole store counts.
func openParts(store string) (layout.Part, error) {
	return layout.Join(store, func(name string) (part layout.Part, err error) {
		f, size, err := openFile(name)
		if err != nil {
			return part, err
		}
		_ = unix.Fadvise(int(f.Fd()), 0, size, unix.FADV_SEQUENTIAL)
		return layout.Part{ReadCloser: struct {
			io.Reader
			io.Closer
		}{patient(f, size), f}, Size: size}, nil
	})
}
