// Package disk measures the file systems that images are pulled to: free bytes and inodes, and the
// bytes of blobs that pulls have staged.
//
// It does not compute how much a pull needs: that is package runtime.
//
// Start with Measure.
package disk
