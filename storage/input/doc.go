// Package input opens files that were named by a user, or by what others made. A pipe without a
// writer would block, a device such as /dev/zero has no end, and merely opening some devices has an
// effect, so they are refused. It does not open what pinbox has written itself.
//
// Start at Open; Read reads a small file, and Medium also opens disks.
package input
