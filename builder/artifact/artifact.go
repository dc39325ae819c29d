package artifact

import (
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/verity"
)

// Names of the files in an appliance's folder, beside those of package layout, which a node knows too.
const (
	ButaneFile   = "config.bu"
	IgnitionFile = "config.ign"
	ISOFile      = "appliance.iso" // if there is a base ISO
	// The configuration of a live system that installs the appliance.
	LiveButaneFile   = "live.bu"
	LiveIgnitionFile = "live.ign"
	// The one that the ISO has, if its base has a configuration, too.
	MergedIgnitionFile = "merged.ign"
	// The program of the node, if it fetches that.
	ProgramFile  = "pinbox-node"
	ManifestsDir = "manifests"
	// The PinnedImageSets of an OpenShift cluster. They are applied last: the operator pulls what a node lacks. So
	// `oc apply -f manifests/`, which reads no folder below, does not apply them.
	OpenShiftSetsDir = ManifestsDir + "/sets"
	// Policies for pods whose pull policy is Always.
	AlwaysDir = ManifestsDir + "/always"
	// An example of a kubelet's configuration that admits the images.
	AllowlistFile = "kubelet-allowlist.conf"
)

// Store describes a store that was written.
type Store struct {
	Name string // in the folder
	Size int64  // bytes
	Sum  string // SHA-256 in hexadecimal; "" if the store is a folder
	// Tree is the hash tree in the file; zero if the format has none.
	Tree verity.Tree
}

// RootHash returns the root of the store's hash tree in hexadecimal; "" if it has none.
func (s Store) RootHash() string {
	if s.Tree.IsZero() {
		return ""
	}
	return s.Tree.Root.Encoded()
}

// Digest returns the digest of the store's file; "" if the store is a folder.
func (s Store) Digest() string {
	if s.Sum == "" {
		return ""
	}
	return "sha256:" + s.Sum
}

// ReadLock reads a lock: a lock file, or the lock of a folder, an ISO or a mounted store.
func ReadLock(name string) (lock pinset.Lock, err error) {
	r, err := release.Open(name, nil)
	if err != nil {
		return lock, err
	}
	defer r.Close()
	return r.Lock()
}

// WriteLock writes a lock file.
func WriteLock(name string, lock pinset.Lock) error {
	f, err := atomicfile.Create(name, 0o644)
	if err != nil {
		return err
	}
	defer f.Abort()
	if err := lock.Encode(f); err != nil {
		return err
	}
	return f.Commit()
}
