// Package filelock locks files against other processes with flock(2). It is the only
// package that does so. The kernel releases a lock when its holder ends, however it ends, so
// no lock is ever left over.
//
// [Lock] opens a file whose only purpose is to be locked, and can wait for it. [Try] locks a
// file that is open already. [Held] asks whether a lock is held.
//
// The locks are advisory: they keep out only those who ask for them. They do not keep out
// other goroutines of the process that share the open file.
package filelock
