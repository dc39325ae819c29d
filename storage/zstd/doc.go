// Package zstd compresses the blocks of a squashfs as small as libzstd does at level 15, mksquashfs's default. Format:
// RFC 8878.
//
// A content is at most some MiB, and is compressed on its own, so there is neither a stream nor a dictionary. Matches
// are found with a binary tree, and those are taken that together take the least bits: the price of each part of a
// sequence is what it cost in the pass before. Literals are encoded by klauspost/compress/huff0. The other levels, and
// everything that is read, are that library's, too; its best level makes blocks that are 5 % larger.
package zstd
