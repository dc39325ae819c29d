//go:build !linux

package artifact

// mountPoint reports false: a rename says when it cannot replace a mount point.
func mountPoint(string) (bool, error) { return false, nil }
