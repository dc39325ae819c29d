package artifact

import (
	"errors"

	"github.com/pinbox/pinbox/storage/layout"
)

// The files of an appliance's folder.
const (
	StoreFile    = layout.StoreFile // other formats have other names
	ButaneFile   = "config.bu"
	IgnitionFile = "config.ign"
	LockFile     = layout.LockFile
	ISOFile      = "appliance.iso" // if there is a base for one
	// The live system's configuration, if it installs the appliance.
	LiveButaneFile   = "live.bu"
	LiveIgnitionFile = "live.ign"
	ManifestsDir     = "manifests"
	SumsFile         = layout.SumsFile
)

// What Verify finds out.
var (
	ErrVerify       = errors.New("verification failed")
	ErrNotAppliance = errors.New("not an appliance's folder or ISO")
)

// The files of a delta's folder, beside lock, manifests and sums.
const (
	DeltaStoreFile = layout.DeltaStoreFile
	DeltaFile      = layout.DeltaFile
)

// Store is what was written of a store.
type Store struct {
	Name string // in the folder
	Size int64  // bytes
	Sum  string // SHA-256 in hexadecimal form, "" of a folder
}

// Digest of the store's file, "" of a folder.
func (s Store) Digest() string {
	if s.Sum == "" {
		return ""
	}
	return "sha256:" + s.Sum
}
