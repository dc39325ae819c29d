// Package codec is the one place that chooses compression libraries for bulk data: to decompress
// layers, and to compress the blocks of a squashfs image.
//
// There are two kinds of build. The default is pure Go, with storage/deflate, klauspost/compress and
// storage/zstd. With the build tag native, and cgo, ISA-L decompresses gzip and libzstd compresses
// blocks, in less CPU time. Both read the same streams and refuse the same ones, except that ISA-L accepts incomplete
// Huffman codes if the checksum matches. Both write valid blocks, but different bytes, so ZstdID
// names the encoder.
//
// It is not for small documents: use the standard library for these.
//
// Start with NewGzipReader and NewZstdReader for layers, and with Block for squashfs.
package codec
