// Package inventory says what an appliance, a delta, a medium or a lock holds: its images with their names, platforms,
// dates, labels and signatures, and the documents beside the store with their digests and signatures.
//
// It verifies no signature: builder/verify does, and the caller says which it has verified. All others are shown as
// not checked.
//
// Start at Read; Inventory.Sections are the tables of it on a page.
package inventory
