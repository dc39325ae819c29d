// Package runtime reconciles the images of a node with its sets. A pass compares the images of the
// sets with those of the node; it checks the space first, then pins the images, then pulls the
// missing ones, and publishes a status.
//
// It uses CRI-O, systemd and the file system through small interfaces that packages below it
// implement, and runtime/node connects them. It has no flags and prints nothing.
//
// Start with Reconciler, which makes a pass, and with Agent, which makes one whenever the sets
// change.
package runtime
