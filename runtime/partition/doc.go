// Package partition copies the store of an appliance to a GPT partition of its own, on the disk of
// an installed system.
//
// A medium is a folder with the store and its sums; the table is the partition table of the disk, which sfdisk reads
// and writes. The store is copied behind the last partition, read back, and only then is the partition an entry of
// the table: so a partition with the store's label is complete, or that of another store.
//
// It does not mount the store, and does not install the system. Start with Install; Check runs
// before the system is installed.
package partition
