// Package mount mounts stores, and says what is mounted. It asks the kernel and the service manager alone: it knows
// nothing of the state of a node, nor what a store has.
//
// An Extent is where a store is. A Mount is to become a mount of it, and a Mounter makes it one: by mount(8), or by a
// unit of systemd in package runtime/systemd. The Table is what is mounted now. A Verifier decides whether a store is
// mounted by dm-verity, and mounts it so, with a block device that a DeviceMapper makes; Verification is what it tells
// of a store that is mounted.
package mount
