package root

import (
	"github.com/pinbox/pinbox/storage/fault"
)

// examiner is the name under which Examine starts this program again.
const examiner = "pinbox-examine"

// ErrMount reports that stores cannot be mounted or opened to examine them.
var ErrMount = fault.New(fault.Other, "stores cannot be examined",
	"mounting needs root, loop devices, and a kernel with squashfs and overlay")

// StoreFile is a store in a file.
type StoreFile struct {
	// File is the path of the file.
	File string `json:"file"`
	// Offset and Size of the squashfs in the file, in bytes.
	Offset int64 `json:"offset"`
	Size   int64 `json:"size"`
}
