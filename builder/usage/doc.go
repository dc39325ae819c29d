// Package usage says what fills a store: which images, layers, folders and files, what images share, what upper layers
// hide of lower ones, and what would be gone with an image. It reads the tables of the store, not the contents, and
// mounts nothing.
//
// Start at Read; Report.HTML writes a page of it.
package usage
