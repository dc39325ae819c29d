package layout

// The tree of an image store, as containers/storage has it: layers.go, images.go,
// containers.go and drivers/overlay/overlay.go. Paths count from the root of the store.
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

	// Volatile records are lost with a reboot.
	VolatileLayersFile     = LayersDir + "/volatile-layers.json"
	VolatileContainersFile = ContainersDir + "/volatile-containers.json"
)

// TarSplitFile is the record of a layer's tar stream.
func TarSplitFile(layer string) string { return LayersDir + "/" + layer + ".tar-split.gz" }

// The folder of pinbox in a store.
const (
	OwnDir     = "pinbox"
	OwnLock    = OwnDir + "/" + LockFile
	OwnDelta   = OwnDir + "/" + DeltaFile // in the store of a delta
	OwnSets    = OwnDir + "/sets"
	OwnFiles   = OwnDir + "/files"       // files that config.ign has no room for, by their paths
	OwnProgram = OwnDir + "/pinbox-node" // not in the store of a delta
)

// The files that the folder of an appliance or of a delta has for a node.
const (
	StoreFile      = "store.squashfs" // other formats are for other hands: builder/format
	DeltaStoreFile = "delta.squashfs"
	DeltaFile      = "delta.json"
	LockFile       = "pinbox.lock.json"
	SumsFile       = "SHA256SUMS"
)

// LockPattern matches the locks that somebody has put beside the sets of a node.
const LockPattern = "*.lock.json"

// SignatureSuffixes are those of a detached signature beside a store's file: what gpg(1)
// makes of --detach-sign, and with --armor.
func SignatureSuffixes() []string { return []string{".sig", ".asc"} }

// The files that an ISO has for a node, in the folder MediumDir. Each name has one dot at
// most, which is all that ISO 9660 itself permits: ECMA-119, 7.5.
const (
	MediumDir       = "pinbox"
	MediumStore     = "store.squashfs"
	MediumLock      = "lock.json"
	MediumSums      = "sums.txt"
	MediumSignature = "store.sig" // if somebody has signed the store
	MediumBase      = "base.iso"  // in the sums only: it is there in the form of undo.gz
)

// MediumLabel is the volume label of a medium that has a delta, by which nodes know one.
const MediumLabel = "PINBOX"

// PartitionLabel is that of the GPT partition that an installation makes for the store.
const PartitionLabel = "pinbox-store"

// Folders and files of a node.
const (
	NodeDir     = "/var/lib/pinbox"
	SlotsDir    = NodeDir + "/stores" // mount points: see Slots
	StoreFolder = NodeDir + "/store"  // a store that is not mounted: spec.store.format tar or dir
	StatusPath  = "/run/pinbox/status.json"
	SetsDir     = "/etc/pinbox/sets.d"
	KeysDir     = "/etc/pinbox/keys.d"
	// LiveStorePath is where a CoreOS live system has the store of its ISO.
	LiveStorePath = "/run/media/iso/" + MediumDir + "/" + MediumStore
	// MediumMount is where a node mounts a medium that has the store alone.
	MediumMount = "/run/media/pinbox"
)

// AttachedDir is the folder below NodeDir that has what was attached, StateFile the record
// of that in it, and AttachedSuffix ends the names of stores in it.
const (
	AttachedDir    = "stores.d"
	StateFile      = "state.json"
	AttachedSuffix = ".squashfs"
)
