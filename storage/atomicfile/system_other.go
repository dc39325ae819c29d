//go:build !linux

package atomicfile

import (
	"errors"
	"os"
)

// writeBack does nothing: Commit syncs everything.
func writeBack(*os.File, int64, int64) {}

// openUnnamed returns errors.ErrUnsupported.
func openUnnamed(string) (int, error) { return -1, errors.ErrUnsupported }

// cloneRange returns errors.ErrUnsupported.
func cloneRange(*os.File, *os.File, int64, int64, int64) error { return errors.ErrUnsupported }
