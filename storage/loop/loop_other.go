//go:build !linux

package loop

import (
	"errors"
	"fmt"
	"os"
)

// Open returns errors.ErrUnsupported: only Linux has loop devices.
func Open(name string, _, _ int64) (*os.File, error) {
	return nil, fmt.Errorf("loop device of %s: %w", name, errors.ErrUnsupported)
}
