package input

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNotRegular reports that a pipe, a socket or a device was named instead of a file.
var ErrNotRegular = fault.New(fault.Input, "not a regular file",
	"write what it gives to a file, and name that: the shell's <(...) is a pipe; flags and arguments that take - "+
		"read standard input")

// Open opens a regular file for reading. A folder is an error of reading, EISDIR.
func Open(name string) (*os.File, error) { return open(name, false) }

// Medium opens a regular file or a block device, such as a disk or a CD, for reading.
func Medium(name string) (*os.File, error) { return open(name, true) }

// Read reads a regular file.
func Read(name string) ([]byte, error) {
	f, err := Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
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
