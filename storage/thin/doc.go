// Package thin makes and reads thin deltas: the form in which a delta store is transported to nodes
// that have its bases. In place of the trees of its layers, a thin delta has recipes: how the tar
// stream of each new layer is put together from contents that layers of the bases have, patches of
// such contents, and literal bytes.
//
// A [Maker] compares the store of a release with the stores of its bases, and writes the index and
// the data, which are two files of the thin delta. A [Reader] puts the streams together and compares
// each with its DiffID: a stream that ends without an error is the right one, whatever the thin delta
// or a base contains.
//
// The package neither composes stores nor decides which base a node uses: see storage/compose,
// builder/format and runtime/stores. docs/format.md names the two files and their limits.
//
// # Streams
//
// A tar stream consists of its skeleton and its contents: the content of a file whose size is not 0
// is a content, everything else is the skeleton. The division is that of the layer's tar-split file:
// lines of files are contents, and the skeleton is the segments, joined; sparse files, and files that
// a later entry of the stream replaces, are in segments. The files of a base layer have numbers: 1 is
// the first line of a file with a size in its tar-split file. Its skeleton has the number 0.
//
// There are three solid streams: 0 skeletons, in the order of the layers; 1 patched contents, for
// which a base has a similar one; 2 literal contents. Each is cut into blocks, which are compressed on
// their own. The dictionary of a block is spans of contents of base layers, joined: raw bytes that
// come before the block (RFC 8878, 5), with the dictionary ID 0. A patch is just that.
//
// # Index
//
// Numbers are varints of encoding/binary; signed ones have zigzag encoding. A table of n rows is
// written column by column. The tables are, in this order,
//
//  1. base layers: their number, and of each the 32 bytes of its ID; then of each 1 if the data blocks
//     of its files that are contents as they are were compressed as those of the store that comes out,
//     and 0 if not or unknown. In what follows, a layer is the number of a row here, from 0;
//  2. for each solid stream: the number of contents; the size of each; the number of blocks; the size
//     of each, minus 1; the compressed size of each; the number of spans of each; of all spans the
//     layer, the file (signed, minus that of the span before), the start and the size. The first block
//     of the data is that of stream 0; the blocks of a stream follow those of the one before;
//  3. runs of contents: their number; of each 4 * count + kind, where the kind is the number of the
//     solid stream, or 3 for contents that a base has as they are; then, of all runs of kind 3, the
//     layers, and the files of the first contents (signed, minus the one after the last content of the
//     run of kind 3 before). The others have the files that follow. Contents have numbers in the order
//     of the runs, from 0. Those of a kind are, in this order, those of its solid stream;
//  4. layers: their number, and of each 32 bytes of its DiffID; the size of its tar stream; four times
//     the number of contents, their size and their compressed size, for the kinds 0 to 3, for people;
//     how many contents it has; of each content the gap, the number of bytes of the skeleton before it;
//     and of each content the reference: 0 for the next content that no layer had, or else the number
//     of that one minus the number of the content;
//  5. the largest files, for people: their number, and of each 32 bytes of the DiffID, its size, its
//     compressed size, and its path with its length before it.
//
// To make the tar stream of a layer, a reader takes, for each content, its gap of the skeleton and
// then the content; the rest of the skeleton is the end of the stream. The index has no digest of a
// content. If the DiffID differs, the sizes and CRC-64 in the tar-split files of the base layers tell
// which file of a base is damaged.
//
// A node may put compressed blocks of a base layer with a 1 into the store, where their data,
// decompressed, are those of a block of the stream; it compresses all others. The maker has compared
// these blocks in all bases, so that both ways give the same store. If the base of a node was
// compressed by another encoder than theirs, the store has other bytes, and the same files.
//
// # Start
//
// Start with [Maker.Make] and [Reader.Layer].
package thin
