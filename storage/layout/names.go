package layout

import (
	"strings"

	"github.com/opencontainers/go-digest"
)

// The paths of an image store below its graph root, as defined by containers/storage: layers.go,
// images.go, containers.go and drivers/overlay/overlay.go.
const (
	OverlayDir    = "overlay"
	LinksDir      = "overlay/l"
	LayersDir     = "overlay-layers"
	ImagesDir     = "overlay-images"
	ContainersDir = "overlay-containers"

	LayersFile     = LayersDir + "/layers.json"
	LayersLock     = LayersDir + "/layers.lock"
	ImagesFile     = ImagesDir + "/images.json"
	ImagesLock     = ImagesDir + "/images.lock"
	ContainersFile = ContainersDir + "/containers.json"

	// Volatile records do not survive a reboot.
	VolatileLayersFile     = LayersDir + "/volatile-layers.json"
	VolatileContainersFile = ContainersDir + "/volatile-containers.json"
)

// The paths of OCI artifacts below a graph root, as defined by go.podman.io/common, pkg/libartifact: an OCI image
// layout.
const (
	ArtifactsDir     = "artifacts"
	ArtifactsIndex   = ArtifactsDir + "/index.json"
	ArtifactsVersion = ArtifactsDir + "/oci-layout"
	ArtifactBlobsDir = ArtifactsDir + "/blobs/sha256"
)

// ArtifactBlob returns the path of a blob of an OCI artifact.
func ArtifactBlob(d digest.Digest) string { return ArtifactBlobsDir + "/" + d.Encoded() }

// TarSplitFile returns the path of the tar-split file of a layer: all of its tar stream except
// the contents of files.
func TarSplitFile(layer string) string { return LayersDir + "/" + layer + ".tar-split.gz" }

// The folder of pinbox in a store.
const (
	OwnDir   = "pinbox"
	OwnLock  = OwnDir + "/" + LockFile
	OwnDelta = OwnDir + "/" + DeltaFile // in the store of a delta
	// The index and the data of a thin delta: see storage/thin.
	ThinIndex  = OwnDir + "/thin/index"
	ThinData   = OwnDir + "/thin/data"
	OwnSets    = OwnDir + "/sets"
	OwnFiles   = OwnDir + "/files"       // files that are too large for config.ign, by their paths
	OwnProgram = OwnDir + "/pinbox-node" // in the store of a delta only if a base has another one
)

// Files for a node in the folder of an appliance or of a delta.
const (
	StoreFile      = "store.squashfs"
	StoreDir       = "store" // of an appliance, in place of it
	DeltaStoreFile = "delta.squashfs"
	ThinStoreFile  = "delta.thin" // of a thin delta, in place of it
	DeltaFile      = "delta.json"
	LockFile       = "pinbox.lock.json"
	ProvenanceFile = "provenance.json" // also on a medium
	SumsFile       = "SHA256SUMS"
)

// AttachableStores returns the names of the stores that a node can attach, in the order in which they are looked for
// in a folder.
func AttachableStores() []string { return []string{DeltaStoreFile, ThinStoreFile, StoreFile} }

// LockPattern matches the names of locks in the folder of a node's sets.
const LockPattern = "*.lock.json"

// rootHashSuffix is the suffix of the file with the root hash of a store's hash tree, which
// systemd.exec(5) RootHash= looks for next to an image, too.
const rootHashSuffix = ".roothash"

// RootHashFile returns the name of the file next to a store with the root hash of its hash tree.
func RootHashFile(store string) string {
	return strings.TrimSuffix(store, AttachedSuffix) + rootHashSuffix
}

// SignatureSuffix is that of a detached signature next to a file: package signature.
const SignatureSuffix = ".sig"

// Files for a node in the folder MediumDir of an ISO. Each name has at most one dot, the maximum
// of ISO 9660 itself: ECMA-119, 7.5.
const (
	MediumDir           = "pinbox"
	MediumStore         = "store.squashfs"
	MediumLock          = "lock.json"
	MediumSums          = "sums.txt"
	MediumRootHash      = "store.roothash"
	MediumSignature     = "store.sig" // if the store is signed
	MediumSumsSignature = "sums.sig"  // if the sums are signed
	MediumBase          = "base.iso"  // in the sums only: the ISO contains undo.gz to restore it
)

// MediumLabel is the volume label of a medium with a delta, by which a node recognizes one.
const MediumLabel = "PINBOX"

// VerityPrefix begins the names of the devices by which stores are mounted, and OwnVerityName is the name
// of the one of the appliance's own store.
const (
	VerityPrefix  = "pinbox-store-"
	OwnVerityName = VerityPrefix + "0"
)

// PartitionLabel is the label of the GPT partition that an installation creates for the store.
const PartitionLabel = "pinbox-store"

// PartitionNumber is the number of that partition, the highest that every GPT has, so that it is nobody else's.
const PartitionNumber = 128

// Folders and files on a node.
const (
	NodeDir     = "/var/lib/pinbox"
	SlotsDir    = NodeDir + "/stores" // mount points: see Slots
	StoreFolder = NodeDir + "/store"  // a store that is not mounted: spec.store.format dir
	// ProgramsDir has the pinbox-node of each later release that the node keeps, by its SHA-256.
	ProgramsDir = NodeDir + "/programs"
	// CurrentProgram is a file there with the SHA-256 of the one that the units install; without it, they install that
	// of the appliance's own store.
	CurrentProgram = "current"
	StatusPath     = "/run/pinbox/status.json"
	SetsDir        = "/etc/pinbox/sets.d"
	KeysDir        = "/etc/pinbox/keys.d"
	// NodeStore is the store as a file of the node, where nothing says another place; also one that the node has fetched.
	NodeStore = NodeDir + "/store.squashfs"
	// LiveStorePath is the path of the store on the ISO of a CoreOS live system.
	LiveStorePath = "/run/media/iso/" + MediumDir + "/" + MediumStore
	// BootPath is a script of what comes before pinbox-node is on a node. It makes StoreLink a link to the device with
	// the appliance's own store.
	BootPath     = "/etc/pinbox/boot"
	StoreEnvPath = "/etc/pinbox/store.env"
	StoreLink    = "/run/pinbox/store-0"
	// MediumMount is the mount point of a medium that contains the store but no operating system.
	MediumMount = "/run/media/pinbox"
)

// AttachedDir is the folder below NodeDir with the attached stores, StateFile is the state in it
// and StateCopy its copy, and AttachedSuffix is the suffix of the stores' names.
const (
	AttachedDir    = "stores.d"
	StateFile      = "state.json"
	StateCopy      = "state.json.copy"
	AttachedSuffix = ".squashfs"
)
