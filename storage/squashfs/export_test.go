package squashfs

// DecodeIndex reads an index without its sums, which keep others away from it.
func DecodeIndex(index []byte) { _, _ = decodeIndex(index) }

// IndexOf gives the index of a pack without its sums.
func IndexOf(p *Pool, pack []byte) []byte {
	foot := pack[len(pack)-packFoot:]
	start, length := le64(foot), le64(foot[8:])
	index, _ := p.unpack.DecodeAll(pack[start:start+length], nil)
	return index
}

func le64(b []byte) (n uint64) {
	for i := range 8 {
		n |= uint64(b[i]) << (8 * i)
	}
	return n
}
