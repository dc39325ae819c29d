package artifact

import "errors"

// The files of an appliance's folder.
const (
	StoreFile    = "store.squashfs"
	StoreTar     = "store.tar" // instead of it, by spec.store.format
	StoreDir     = "store"     // likewise, a folder
	ButaneFile   = "config.bu"
	IgnitionFile = "config.ign"
	LockFile     = "pinbox.lock.json"
	ISOFile      = "appliance.iso" // if there is a base for one
	// The live system's configuration, if it installs the appliance.
	LiveButaneFile   = "live.bu"
	LiveIgnitionFile = "live.ign"
	ManifestsDir     = "manifests"
	SumsFile         = "SHA256SUMS"
)

// What Verify finds out.
var (
	ErrVerify       = errors.New("verification failed")
	ErrNotAppliance = errors.New("not an appliance's folder or ISO")
)

// The files of a delta's folder, beside lock, manifests and sums.
const (
	DeltaStoreFile = "delta.squashfs"
	DeltaFile      = "delta.json"
)

// RootRecords is there in every store that is a folder.
const RootRecords = StoreDir + "/overlay-images/images.json"

// OwnDir is pinbox's own folder in the store, beside the storage tree.
const OwnDir = "pinbox"
