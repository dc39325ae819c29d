package squashfs

import (
	"crypto/sha256"
	"hash/maphash"
	"sync"
)

// leastKeyed is the size in bytes of the smallest pack of which a Compressor keeps keyed sums. A store may have
// 100,000 smaller ones, which have next to none of its bytes.
const leastKeyed = 64 << 10

// keyedSums are sums of the extents of packs that a Compressor has written, by the digests of their indexes. They
// take a tenth of the time of SHA-256, and say that a disk gives back what was written. They are no protection
// from who changes a pack on purpose while it is being used: only the user of pinbox can write where packs are,
// and who can, decides what nodes run. Packs of other processes have none.
type keyedSums struct {
	seed maphash.Seed

	mu     sync.Mutex
	byPack map[[sha256.Size]byte][]uint64
}

func newKeyedSums() *keyedSums {
	return &keyedSums{seed: maphash.MakeSeed(), byPack: map[[sha256.Size]byte][]uint64{}}
}

// add keeps the sums of a pack.
func (k *keyedSums) add(index [sha256.Size]byte, extents []extent) {
	sums := make([]uint64, len(extents))
	for n, e := range extents {
		sums[n] = e.keyed
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.byPack[index] = sums
}

// take sets the sums of a pack that is opened. It forgets them: an image gets the extents of a pack once.
func (k *keyedSums) take(index [sha256.Size]byte, extents []extent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for n, keyed := range k.byPack[index] {
		extents[n].keyed = keyed
	}
	delete(k.byPack, index)
}

// hash starts a sum.
func (k *keyedSums) hash() *maphash.Hash {
	h := &maphash.Hash{}
	h.SetSeed(k.seed)
	return h
}
