// Package cache keeps packs (storage/squashfs) between builds, so that a layer is fetched and
// compressed once.
//
// Each pack is a file, named by the digest of the layer's tar stream. A file appears by rename when
// it is complete, and who has opened it may read it after its removal. So builds can share a folder
// without coordination. A Partial is a blob that is not fetched completely.
//
// A sealed entry is smaller: it ends with its digest, and is read as a whole.
//
// Each pack has the digests of its blocks and says which layer it is of; its readers compare both. The
// package trusts who can write to the folder, and refuses one that other users can write to.
//
// Start with Open.
package cache
