package squashfs

// table is a hash table of positions in a list that has the keys, for lists of millions: 8 bytes for each slot. It uses
// open addressing; 0 is no position.
type table struct {
	slots []slot
	used  int
}

type slot struct{ at, hash uint32 }

// find returns the position with the hash for which is returns true, or 0.
func (t *table) find(hash uint32, is func(uint32) bool) uint32 {
	if t.used == 0 {
		return 0
	}
	n := t.first(hash)
	for s := t.slots[n]; s.at > 0 && (s.hash != hash || !is(s.at)); s = t.slots[n] {
		n = t.next(n)
	}
	return t.slots[n].at
}

// add adds a position.
func (t *table) add(at, hash uint32) {
	if t.used >= len(t.slots)*3/4 {
		old := t.slots
		t.slots = make([]slot, max(16, 2*len(old)))
		for _, s := range old {
			if s.at > 0 {
				t.place(s)
			}
		}
	}
	t.used++
	t.place(slot{at, hash})
}

func (t *table) place(s slot) {
	n := t.first(s.hash)
	for t.slots[n].at > 0 {
		n = t.next(n)
	}
	t.slots[n] = s
}

func (t *table) first(hash uint32) int { return int(hash) & (len(t.slots) - 1) }
func (t *table) next(n int) int        { return (n + 1) & (len(t.slots) - 1) }
