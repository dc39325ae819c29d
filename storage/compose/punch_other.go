//go:build !linux

package compose

import "os"

// punch does nothing: the file is freed when it is closed.
func punch(*os.File, int64, int64) {}
