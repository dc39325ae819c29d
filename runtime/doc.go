// Package runtime reconciles the images of a node with its sets. A pass compares the images of the
// sets with those of the node; it checks the space first, then pins the images, then pulls the
// missing ones, and publishes a status.
//
// It uses CRI-O and the node through the small interfaces in port.go: packages below it implement those of CRI-O and
// the disk, and runtime/node has Node, which reads the sets and the configuration of each pass and publishes the
// status, and Stores. It has no flags; what it does it logs to the logger that it is given.
//
// Start with Reconciler, which makes a pass, and with Agent, which makes one whenever the sets
// change.
package runtime
