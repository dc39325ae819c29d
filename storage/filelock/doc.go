// Package filelock locks files against other processes with flock(2). It is the only package that
// does so. The kernel releases a lock when the process that holds it ends, so no lock is left over.
//
// Lock opens a file that exists only to be locked, and can wait for the lock. Wait and Try do so with an open file.
// Held reports whether a lock is held.
//
// The locks are advisory: they have no effect on processes that do not ask for them, nor on other
// goroutines that use the same open file.
//
// Start with Lock.
package filelock
