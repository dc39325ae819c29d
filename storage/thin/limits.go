package thin

// Limits of what a reader of a thin delta accepts, whose author may be hostile. A field that is zero
// has its default.
type Limits struct {
	// Size of the tar stream of a layer in bytes; compose.DefaultSize by default.
	Size int64
}

const (
	// maxIndex is the limit for the index in bytes, when it is not compressed. The recipes of an
	// OpenShift release, with 1,000 layers and 3,000,000 files, need some 10 MiB.
	maxIndex = 32 << 20
	// maxRows is the limit for the rows of each table of the index. A row takes up to 40 bytes; those of the tables
	// with another limit take more.
	maxRows = 1 << 20
	// maxLayers and maxBlocks are those of layers, and of blocks of each stream, of which most have maxBlock.
	maxLayers, maxBlocks = 1 << 14, 1 << 16
	// maxListed is for the largest files, of which a maker lists maxLargest.
	maxListed = 1 << 8
	// maxSpans is for those of one dictionary. A content of a block has one span at most, and is seldom shorter than 64
	// bytes.
	maxSpans = 1 << 16
	// maxRewinds is how often the spans of one dictionary make a skeleton of a base layer be read from its start: for
	// another layer, or since they go back. Those of a maker follow each other.
	maxRewinds = 16
	// spanCost is what a span counts as in the bytes that may be decompressed: a file is opened for it.
	spanCost = 256
	// maxBlock is the limit for a block of a solid stream in bytes, and maxDictionary for its
	// dictionary: a reader holds one block of each kind and one dictionary.
	maxBlock      = 3 << 19
	maxDictionary = 5 << 19
	// window is that of the encoder in bytes: an old content is at most a dictionary away from the new one.
	window = 4 << 20
	// maxRepeats is how often a block is decompressed, on average, because contents are not in the
	// order of their stream. A maker repeats no contents shorter than minRepeated from other blocks: one
	// needs its own block, and the next content the current block again.
	maxRepeats  = 2 * maxBlock / minRepeated
	minRepeated = 64 << 10
)
