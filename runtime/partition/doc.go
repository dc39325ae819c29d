// Package partition gives the store of an appliance a GPT partition of its own, on the disk of an
// installed system: it checks the disk, copies the store behind the last partition, reads it
// again, and makes the partition last.
//
// It does not mount the store, and installs no system. Start with Install; Check is its first
// half.
package partition
