// Package bytesize formats and parses sizes for people, in the units of IEC 80000-13: 5.7 MiB.
//
// All of pinbox uses these units. They are those of Kubernetes quantities, of the messages of the
// Machine Config Operator, of df -h and of lsblk.
//
// It is not for JSON and YAML, nor for errors about a file of the wrong size: these have exact numbers
// of bytes.
//
// Start with Format and Parse.
package bytesize
