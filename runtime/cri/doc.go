// Package cri is a client of the Container Runtime Interface: it lists images and containers, and
// pulls and removes images.
//
// It does not decide which images are pulled, and when: that is package runtime.
//
// Start with Dial.
package cri
