// Package setup makes a node of a machine with CRI-O that has no Ignition, or of the image of one: it
// writes what package provision says as plain files, and takes it back.
//
// A host is the file system of the machine or of the image; nothing reads or writes it by another way, and no link of
// an image leads out of it. A Manifest, a file on the machine, says what setup has written; it is written before all
// else. A plan compares what the machine must hold with what it has and with the Manifest of before, and is a list of
// Changes. A file that is neither of setup nor as setup wrote it is never replaced and never removed. Undo is the plan
// to hold nothing.
//
// It attaches no store, and makes no pass: package node does that afterwards.
//
// Start with New, and the Run, Check and Undo of its Setup.
package setup
