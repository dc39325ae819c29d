// Package cri asks CRI-O for images and containers over the Container Runtime Interface, and has
// it pull and remove images.
//
// It decides nothing: which images are pulled, and when, is package runtime's.
//
// Start with Dial.
package cri
