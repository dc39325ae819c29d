// Package runtime looks after the pinned images of a living node: it compares what the sets ask
// for with what the node has, and makes the node have it: space is checked first, then images are
// pinned, then missing ones are pulled.
//
// It talks to CRI-O, systemd and the file system through small interfaces that packages below it
// implement; it has no flags and prints nothing.
//
// Start with Reconciler.
package runtime
