// Package verity computes and checks the hash tree of dm-verity, with which a kernel verifies each
// block of a store when it is read. The tree follows the data in the same file:
//
//	data, padded to blocks of 4096 bytes | superblock, one block | tree, the top level first
//
// The format is the one that `veritysetup format --no-superblock=off --salt=- --data-blocks=N
// --hash-offset=N*4096` writes: version 1, type 1, SHA-256, no salt. The UUID is made of the root, so
// equal data gives equal bytes. See the kernel's Documentation/admin-guide/device-mapper/verity.rst
// and cryptsetup's lib/verity.
//
// The package opens no device: runtime/stores and the units of package ignition do. It reads no file
// either: what writes or reads a store passes the bytes on, front to back. Memory does not grow with
// the data.
//
// Start with Writer and Checker.
package verity
