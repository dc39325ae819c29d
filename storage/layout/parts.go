package layout

import (
	"fmt"
	"regexp"
)

// MaxParts is the largest number of parts of a store: of the three digits in their names. With parts just below 4
// GiB, the largest file of FAT, that is 3.9 TiB.
const MaxParts = 999

var partSuffix = regexp.MustCompile(`\.[0-9]{3}$`)

// PartName returns the name of a part of a store that was split, counted from 1: "store.squashfs.001". SHA256SUMS
// lists the parts, and the store as if it were there in one file.
func PartName(store string, n int) string { return fmt.Sprintf("%s.%03d", store, n) }

// CutPart returns the name of the store that a part is of, and whether the name is one of a part.
func CutPart(name string) (store string, is bool) {
	store = partSuffix.ReplaceAllString(name, "")
	return store, store != name
}
