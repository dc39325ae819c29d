// Package ocilayout writes images of a few files to an OCI image layout. Equal files give equal bytes.
//
// It does not read layouts, which package storage does, and holds each layer in memory.
//
// Start at Layout.
package ocilayout
