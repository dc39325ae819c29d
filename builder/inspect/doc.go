// Package inspect says what an appliance, a delta, a medium or a lock holds, and what fills its store: images, layers
// and files, what images share and what upper layers hide, the dates, labels and signatures of images, and the
// documents beside the store with their digests and signatures. It reads the tables and the records of a store, and
// mounts nothing.
//
// It verifies no signature: builder/verify does, and the caller says which it has verified. All others are shown as
// not checked.
//
// Start at Read; Report.HTML writes a page.
package inspect
