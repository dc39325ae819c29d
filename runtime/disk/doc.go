// Package disk measures the file systems that images go to: free bytes and inodes, and what is
// being staged.
//
// It does not say how much a pull needs: that is package runtime.
//
// Start with Measure.
package disk
