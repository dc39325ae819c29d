// Package partition copies the store of an appliance to a GPT partition of its own, on the disk of
// an installed system: it checks the disk, copies the store behind the last partition, reads it
// back, and only then adds the partition to the table.
//
// It does not mount the store, and does not install the system. Start with Install; Check runs
// before the system is installed.
package partition
