// Package setup makes a node of a machine with CRI-O that has no Ignition, or of the image of one: it
// writes what package provision says as plain files, and takes it back.
//
// It attaches no store, and makes no pass: package node does that afterwards.
//
// Start with New, and the Run, Check and Undo of its Setup.
package setup
