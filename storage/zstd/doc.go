// Package zstd compresses the blocks of a squashfs: in less time than klauspost/compress needs at its default level, or
// as small as libzstd does at level 15, mksquashfs's default. Format: RFC 8878.
//
// A content is at most some MiB, and is compressed on its own, so there is neither a stream nor a dictionary.
//
//   - NewDefault takes the first match that two small hash tables find. The tables of klauspost/compress do not fit
//     into the cache of a core, which costs a quarter of its time.
//   - NewBest finds matches with a binary tree, and takes those that together take the least bits: the price of each
//     part of a sequence is what it cost in the pass before. klauspost/compress makes blocks that are 5 % larger at its
//     best level.
//
// Literals are encoded by klauspost/compress/huff0. The fastest level, and everything that is read, are that library's,
// too.
package zstd
