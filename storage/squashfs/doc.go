// Package squashfs writes and reads squashfs 4.0 images. It writes them in two steps.
//
// A Packer takes a tree of inodes with the contents of its files and makes a pack: compressed
// blocks as an image has them, and the tree. Contents are written in the order in which they are
// added, so nothing depends on the order in which a caller learns of names, links, attributes
// or replacements. Packs are made independently of each other and can be kept.
//
// A Writer lays packs out one after the other, each extent of blocks once, and writes their trees
// into the image's tables. The bytes of packs and images depend on the input and the options
// alone, never on the number of workers.
//
// A Reader is an io/fs file system of an image that any program has written. A Copier copies
// subtrees of one image into another without decompressing their blocks.
//
// The package does not know layers or stores, and does not mount images. It writes zstd, gzip and
// uncompressed images only.
//
// Start with NewCompressor and the example. Format: https://dr-emann.github.io/squashfs/squashfs.html
// and Documentation/filesystems/squashfs.rst in the kernel; the kernel's fs/squashfs/super.c
// decides which table must follow which.
package squashfs
