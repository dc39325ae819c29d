// Package codec chooses the compression libraries for bulk data: what decompresses layers, and
// what compresses the blocks of a squashfs.
//
// There are two kinds of build. The default one is Go throughout, by klauspost/compress. With the
// build tag native, and cgo, ISA-L decompresses gzip and libzstd compresses blocks: both take
// about half the CPU. Either reads the same streams, and refuses the same ones but for one case:
// ISA-L takes Huffman codes that are not complete, where the checksum is right. What they write is
// equally valid but differs in its bytes, so ZstdID names who writes.
//
// It is not for small documents, which the standard library compresses.
//
// Start with NewGzipReader and NewZstdReader for layers, and with Block for squashfs.
package codec
