//go:build !linux

package root

import (
	"context"
	"fmt"
	"runtime"
)

// CheckPrivileges returns ErrNotPermitted: the files of a graph root are Linux's.
func CheckPrivileges() error { return fmt.Errorf("%w; this is %s", ErrNotPermitted, runtime.GOOS) }

// Unmount does nothing: nothing was mounted.
func Unmount(string) error { return nil }

// CannotExamine says that Examine cannot run here.
func CannotExamine() string { return "mounting them requires Linux" }

// Examine returns ErrMount.
func Examine(context.Context, []StoreFile) ([]string, error) {
	return nil, fmt.Errorf("%w: %s", ErrMount, CannotExamine())
}

func examineMain() {}
