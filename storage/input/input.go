package input

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNotRegular reports that a pipe, a socket or a device was named instead of a file.
var ErrNotRegular = fault.New(fault.Input, "not a regular file",
	"write what it gives to a file, and name that: the shell's <(...) is a pipe; lists, sets, manifests and mirrors may "+
		"be pipes, or - for standard input")

// Open opens a regular file for reading. A folder is an error of reading, EISDIR.
func Open(name string) (*os.File, error) { return open(name, false) }

// Dir is a folder as a file system, as os.DirFS is, but of what is in it, only folders and regular files are opened.
type Dir string

// Open implements fs.FS.
func (d Dir) Open(name string) (fs.File, error) {
	if fi, err := fs.Stat(os.DirFS(string(d)), name); err != nil || fi.IsDir() {
		return os.DirFS(string(d)).Open(name)
	}
	return Open(filepath.Join(string(d), name))
}

// Medium opens a regular file or a block device, such as a disk or a CD, for reading.
func Medium(name string) (*os.File, error) { return open(name, true) }

// maxPiped bounds what is read of a pipe, in bytes, as document.MaxBytes does for a file.
const maxPiped = 64 << 20

// Named opens a file that a user names, and not one that was found in a folder: it may be a pipe, or "-" for standard
// input, of which all is read first, unless ctx ends.
func Named(ctx context.Context, name string) (io.ReadCloser, error) {
	if name == "-" {
		return piped(ctx, func() (io.ReadCloser, error) { return io.NopCloser(os.Stdin), nil })
	}
	if fi, err := os.Stat(name); err != nil || fi.Mode()&fs.ModeNamedPipe == 0 {
		return Open(name)
	}
	return piped(ctx, func() (io.ReadCloser, error) { return os.Open(name) })
}

// Stream reads a stream to its end, unless ctx ends.
func Stream(ctx context.Context, r io.Reader) (io.ReadCloser, error) {
	return piped(ctx, func() (io.ReadCloser, error) { return io.NopCloser(r), nil })
}

// piped reads a pipe. Nothing can end the wait for what writes to it, so when ctx ends it is left to itself.
func piped(ctx context.Context, open func() (io.ReadCloser, error)) (io.ReadCloser, error) {
	type result struct {
		content []byte
		err     error
	}
	done := make(chan result, 1)
	go func() {
		from, err := open()
		if err != nil {
			done <- result{err: err}
			return
		}
		content, err := io.ReadAll(io.LimitReader(from, maxPiped+1)) // a byte more, so that the reader refuses it
		done <- result{content, errors.Join(err, from.Close())}
	}()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r := <-done:
		return io.NopCloser(bytes.NewReader(r.content)), r.err
	}
}

// ErrTooLarge reports a file that is larger than any of its kind.
var ErrTooLarge = fault.New(fault.Input, "too large", "it is not the file that it has the name of: replace it")

// maxConfig bounds the configuration of a program, and maxRead any other file, in bytes: the largest is an Ignition
// config with 64 MiB of files, in base64.
const maxConfig, maxRead = 1 << 20, 128 << 20

// Read reads a regular file of at most 128 MiB.
func Read(name string) ([]byte, error) { return read(name, maxRead) }

// Config reads a regular file with the configuration of a program, of at most 1 MiB.
func Config(name string) ([]byte, error) { return read(name, maxConfig) }

func read(name string, most int64) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var content []byte
	fi, err := f.Stat()
	if err == nil && fi.Size() <= most { // a larger one takes no memory
		content, err = io.ReadAll(io.LimitReader(f, most+1)) // files of /proc have no size
	}
	if err == nil && max(fi.Size(), int64(len(content))) > most {
		err = fmt.Errorf("%s: %w: more than %d MiB", name, ErrTooLarge, most>>20)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

func open(name string, disk bool) (*os.File, error) {
	fi, err := os.Stat(name) // before it is opened
	if err == nil {
		err = check(name, fi, disk)
	}
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if fi, err = f.Stat(); err == nil {
		err = check(name, fi, disk) // it may be another one now
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func check(name string, fi fs.FileInfo, disk bool) error {
	// A link to it is how administrators take away a file of a folder of drop-ins: it is empty.
	if null, err := os.Stat(os.DevNull); err == nil && os.SameFile(fi, null) {
		return nil
	}
	kind := ""
	switch mode := fi.Mode(); {
	case mode.IsRegular(), disk && mode&(fs.ModeDevice|fs.ModeCharDevice) == fs.ModeDevice:
		return nil
	case mode.IsDir():
		return &fs.PathError{Op: "read", Path: name, Err: syscall.EISDIR}
	case mode&fs.ModeNamedPipe != 0:
		kind = "a pipe"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	default:
		kind = "a device"
	}
	return fmt.Errorf("%s is %s, %w", name, kind, ErrNotRegular)
}
