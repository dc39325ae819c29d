// Package transfer copies bytes whose size and digest are known, and compares both on the
// way. With it the node copies the file of a store to its disk or to a partition, and reads one
// back.
//
// The package does not make the copy durable. The caller gives it an atomicfile.File and commits
// that when [Copy] has succeeded, or syncs the device.
package transfer
