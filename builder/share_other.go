//go:build !linux

package builder

// sharesBlocks reports that files do not share blocks.
func sharesBlocks(string) bool { return false }
