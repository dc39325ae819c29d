package zstd

import "math/bits"

// Limits of a table: RFC 8878, 3.1.1.3.2.1.
const (
	minTableLog  = 5
	maxTableLog  = 9
	maxTableSize = 1 << maxTableLog
	maxCodes     = 53
	maxStateBits = 9 + 9 + 8 // of the states of a sequence
)

// counts say how often each code occurs, or how many states of a table it has. In a predefined table, -1 is one state
// that is behind those of other codes.
type counts [maxCodes]int32

// table encodes codes by states, of which there are 1 << log. Format: RFC 8878, 4.1.
type table struct {
	log    uint
	states [maxTableSize]uint16
	codes  [maxCodes]transition
}

// transition is how a code changes the state: it takes (state+bits)>>16 of the state's lowest bits, and the rest is the
// place of the next state, less first.
type transition struct {
	bits  uint32
	first int32
}

// normalize returns how many states of 1<<log each of the n codes has, in about the same proportion as they occur, and
// at least one. No two machines may differ: there are no floating points.
func normalize(occur *counts, n int, total int32, log uint) (states counts) {
	left := int32(1) << log
	for i, c := range occur[:n] {
		if c > 0 {
			states[i] = max(1, c<<log/total)
			left -= states[i]
		}
	}
	// A state more shortens c codes by about c/(states+1/2) each, and one less makes them longer by c/(states-1/2).
	for ; left > 0; left-- {
		best := 0
		for i, c := range occur[:n] {
			if c*(2*states[best]+1) > occur[best]*(2*states[i]+1) {
				best = i
			}
		}
		states[best]++
	}
	for ; left < 0; left++ {
		best := -1
		for i, c := range occur[:n] {
			if states[i] > 1 && (best < 0 || c*(2*states[best]-1) < occur[best]*(2*states[i]-1)) {
				best = i
			}
		}
		states[best]--
	}
	return states
}

// tableLog returns the logarithm of the size of the table of n codes that occur total times together, at most limit.
func tableLog(n int, total int32, limit int) uint {
	fits := bits.Len32(uint32(total)-1) - 3                               // no more is worth its description
	least := min(bits.Len32(uint32(total)), bits.Len(uint(n-1))+1, limit) // a state for each code
	return uint(max(min(limit, fits), least, minTableLog))
}

// build makes a table.
func (t *table) build(states *counts, n int, log uint) {
	t.log = log
	size := 1 << log
	var codes [maxTableSize]uint8
	end := size
	for code, count := range states[:n] {
		if count < 0 {
			end--
			codes[end] = uint8(code)
		}
	}
	at, step := 0, size>>1+size>>3+3
	for code, count := range states[:n] {
		for range count {
			codes[at] = uint8(code)
			for at = (at + step) & (size - 1); at >= end; {
				at = (at + step) & (size - 1)
			}
		}
	}
	var next [maxCodes]int32
	total := int32(0)
	for code, count := range states[:n] {
		next[code] = total
		if count == 0 {
			continue
		}
		count = max(count, -count)
		most := log
		if count > 1 {
			most = log - uint(bits.Len32(uint32(count-1))) + 1
		}
		t.codes[code] = transition{bits: uint32(most)<<16 - uint32(count)<<most, first: total - count}
		total += count
	}
	for i, code := range codes[:size] {
		t.states[next[code]] = uint16(size + i)
		next[code]++
	}
}

// one makes the table of a code alone, which takes no bits.
func (t *table) one(code uint8) {
	t.log = 0
	t.states[0] = 0
	t.codes[code] = transition{}
}

// start returns the state for the last code.
func (t *table) start(code uint8) uint32 {
	c := t.codes[code]
	n := (c.bits + 1<<15) >> 16
	return uint32(t.states[int32((n<<16-c.bits)>>n)+c.first])
}

// encode adds the bits for a code before those that are encoded already, and returns the next state.
func (t *table) encode(w *bitWriter, state uint32, code uint8) uint32 {
	c := t.codes[code]
	n := (state + c.bits) >> 16
	w.add(uint64(state)&(1<<(n&63)-1), uint(n))
	return uint32(t.states[int32(state>>(n&31))+c.first])
}

// appendStates appends the description of a table. Format: RFC 8878, 4.1.1.
func appendStates(out []byte, states *counts, log uint) []byte {
	w := bitWriter{out: out}
	w.add(uint64(log-minTableLog), 4)
	left, threshold, width := 1<<log+1, 1<<log, log+1
	for code := 0; left > 1; {
		count := int(states[code])
		code++
		spare := 2*threshold - 1 - left
		left -= count
		value := count + 1
		if value >= threshold {
			value += spare
		}
		if value < spare {
			w.add(uint64(value), width-1)
		} else {
			w.add(uint64(value), width)
		}
		w.flush()
		for left < threshold {
			width, threshold = width-1, threshold>>1
		}
		if count > 0 || left <= 1 {
			continue
		}
		zeros := 0
		for states[code] == 0 {
			code, zeros = code+1, zeros+1
		}
		for ; zeros >= 3; zeros -= 3 {
			w.add(3, 2)
			w.flush()
		}
		w.add(uint64(zeros), 2)
		w.flush()
	}
	return w.close()
}

// log2 returns the binary logarithm of x, which is not 0, times 256.
func log2(x uint32) uint32 {
	n := uint32(bits.Len32(x)) - 1
	m := uint64(x) << (31 - n)
	for range 8 {
		m = m * m >> 31
		n <<= 1
		if m >= 1<<32 {
			m >>= 1
			n |= 1
		}
	}
	return n
}

// cost returns the bits that all codes take, times 256. Each has a state.
func cost(occur, states *counts, n int, log uint) (sum uint32) {
	for i, c := range occur[:n] {
		if c > 0 {
			sum += uint32(c) * (uint32(log)<<8 - log2(uint32(max(states[i], -states[i]))))
		}
	}
	return sum
}
