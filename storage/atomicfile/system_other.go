//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// writeBack does nothing: Commit syncs everything.
func writeBack(*os.File, int64, int64) {}

// waitBack does nothing.
func waitBack(*os.File, int64, int64) error { return nil }

// unnamed returns nil.
func unnamed(*os.File) *os.File { return nil }

// openDirect opens a folder: the temporary folder of macOS is behind a link.
func openDirect(path string) (*os.File, error) { return os.Open(path) }

// link returns errors.ErrUnsupported.
func link(*os.File, *os.Root, string) error { return errors.ErrUnsupported }

// cloneRange returns errors.ErrUnsupported.
func cloneRange(*os.File, *os.File, int64, int64, int64) error { return errors.ErrUnsupported }
