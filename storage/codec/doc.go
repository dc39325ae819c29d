// Package codec is the one place that chooses compression libraries for bulk data: to decompress
// layers, and to compress the blocks of a squashfs image.
//
// These are storage/deflate, klauspost/compress and storage/zstd. ZstdID names the encoder, on which the bytes of
// blocks depend.
//
// It is not for small documents: use the standard library for these.
//
// Start with NewGzipReader and NewZstdReader for layers, and with Block for squashfs.
package codec
