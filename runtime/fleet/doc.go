// Package fleet has what nodes report of their images, and what the reports of many nodes say together: how many nodes
// are ready, and why the others are not.
//
// It reads and writes reports as objects in files. Those of an API, and the rules which set is for which node, are in
// package cluster.
//
// Start with NewReport, with Read, and with Summarize.
package fleet
