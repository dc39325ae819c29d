// Package cache keeps what was made of layers, so that it is made once.
//
// An entry is a pack (storage/squashfs) in a file of its own, under the digest of the layer's tar
// stream. Entries appear whole, by rename; whoever has opened one may go on reading when it is
// removed. So builds may share a folder without asking each other. A Partial is a blob that is not
// fetched completely yet.
//
// It does not judge who may write to the folder: whatever is in it is taken for what pinbox made,
// except that damage is found.
//
// Start with Open.
package cache
