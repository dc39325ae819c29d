package zstd

import (
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/klauspost/compress/huff0"
)

// maxBlock is the most that a block decompresses to, in bytes: RFC 8878, 3.1.1.2.4.
const maxBlock = 128 << 10

// Version changes with the bytes of frames: with this package, or with klauspost/compress/huff0.
const Version = 2

// Encoder compresses contents of less than 256 MiB, each on its own. It is used from one goroutine at a time.
type Encoder struct {
	finder   finder
	parsed   parsed
	huffman  huff0.Scratch
	literals *coder
	offsets  *coder
	lengths  *coder
}

// finder finds the matches of a content.
type finder interface {
	begin(content []byte)
	// block appends the sequences and literals of content[from:to] to an empty p, and updates the last offsets.
	block(content []byte, from, to int, p *parsed)
}

// parsed is a block in sequences. The literals of all sequences, and those after the last one, are one after the other.
type parsed struct {
	sequences []sequence
	literals  []byte
	last      [3]uint32 // offsets
}

// add adds a sequence. Few literals are the usual case: to copy 16 bytes takes less than a call.
func (p *parsed) add(literals []byte, offset uint32, length int) {
	const few = 16
	p.sequences = append(p.sequences, sequence{uint32(len(literals)), uint32(length), offset})
	if n := len(p.literals); len(literals) <= few && cap(literals) >= few && cap(p.literals)-n >= few {
		*(*[few]byte)(p.literals[n : n+few]) = *(*[few]byte)(literals[:few])
		p.literals = p.literals[:n+len(literals)]
		return
	}
	p.literals = append(p.literals, literals...)
}

// NewBest returns an Encoder that compresses as libzstd does at level 15. It keeps 10 to 15 MB, or 19 to 25 with
// contents of 1 MiB.
func NewBest() *Encoder { return newEncoder(&optimal{}) }

// NewDefault returns an Encoder that compresses as libzstd does at level 3. What is behind 1 MiB of a content is
// compressed less. It keeps 1 to 2 MB.
func NewDefault() *Encoder { return newEncoder(&dfast{}) }

func newEncoder(f finder) *Encoder {
	e := &Encoder{finder: f, literals: newCoder(literalKind), offsets: newCoder(offsetKind), lengths: newCoder(lengthKind)}
	e.huffman.Reuse = huff0.ReusePolicyNone
	return e
}

// Append appends a frame. It has a single segment and no checksum. Format: RFC 8878, 3.1.1.
func (e *Encoder) Append(out, content []byte) []byte {
	content = slices.Clip(content) // so that nothing behind it is read
	out = appendHeader(out, len(content))
	e.finder.begin(content)
	e.parsed.last = [3]uint32{1, 4, 8}
	for from := 0; ; from += maxBlock {
		to := min(from+maxBlock, len(content))
		out = e.appendBlock(out, content, from, to)
		if to == len(content) {
			return out
		}
	}
}

func appendHeader(out []byte, size int) []byte {
	const magic, segment = 0xfd2fb528, 1 << 5
	out = binary.LittleEndian.AppendUint32(out, magic)
	switch {
	case size < 256:
		return append(out, segment, byte(size))
	case size < 256+1<<16:
		return binary.LittleEndian.AppendUint16(append(out, segment|1<<6), uint16(size-256))
	default:
		return binary.LittleEndian.AppendUint32(append(out, segment|2<<6), uint32(size))
	}
}

// Types of blocks, and of their literals: RFC 8878, 3.1.1.2.2 and 3.1.1.3.1.1.
const (
	raw        = 0
	repeated   = 1
	compressed = 2
)

// appendBlock appends a block with its header. Format: RFC 8878, 3.1.1.2.
func (e *Encoder) appendBlock(out, content []byte, from, to int) []byte {
	const headerSize = 3
	start, last, offsets := len(out), uint32(0), e.parsed.last
	if to == len(content) {
		last = 1
	}
	header := func(kind, size int) {
		h := last | uint32(kind)<<1 | uint32(size)<<3
		out[start], out[start+1], out[start+2] = byte(h), byte(h>>8), byte(h>>16)
	}
	out = append(out, 0, 0, 0)
	part := content[from:to]
	if len(part) > 1 && isRepeated(part) {
		out = append(out, part[0])
		header(repeated, len(part))
		return out
	}
	e.parsed.sequences, e.parsed.literals = e.parsed.sequences[:0], e.parsed.literals[:0]
	e.finder.block(content, from, to, &e.parsed)
	out = e.appendLiterals(out)
	out, readable := e.appendSequences(out)
	if size := len(out) - start - headerSize; size < len(part) && readable {
		header(compressed, size)
		return out
	}
	e.parsed.last = offsets
	out = append(out[:start+headerSize], part...)
	header(raw, len(part))
	return out
}

func isRepeated(b []byte) bool {
	for _, c := range b {
		if c != b[0] {
			return false
		}
	}
	return true
}

// appendLiterals appends the literals of a block. Format: RFC 8878, 3.1.1.3.1.
func (e *Encoder) appendLiterals(out []byte) []byte {
	const least = 32 // bytes that may be worth a description of their code
	b := e.parsed.literals
	if len(b) < least {
		return appendPlain(out, b)
	}
	compress, streams := huff0.Compress4X, uint64(1)
	if len(b) < 256 {
		compress, streams = huff0.Compress1X, 0
	}
	packed, _, err := compress(b, &e.huffman)
	if err != nil || len(packed)+4 > len(b)-len(b)>>6 {
		return appendPlain(out, b) // it does not compress, or not enough to be worth the time of the decoder
	}
	// Two numbers of 10, 14 or 18 bits.
	n := uint64(10)
	format := streams
	for ; len(b)>>n > 0; n += 4 {
		format = (n-10)/4 + 2
	}
	h := uint64(compressed) | format<<2 | uint64(len(b))<<4 | uint64(len(packed))<<(4+n)
	for i := range (4 + 2*n + 7) / 8 {
		out = append(out, byte(h>>(8*i)))
	}
	return append(out, packed...)
}

// appendPlain appends literals as they are.
func appendPlain(out, b []byte) []byte {
	switch n := len(b); {
	case n < 1<<5:
		out = append(out, byte(n<<3))
	case n < 1<<12:
		out = append(out, byte(1<<2|n<<4), byte(n>>4))
	default:
		out = append(out, byte(3<<2|n<<4), byte(n>>4), byte(n>>12))
	}
	return append(out, b...)
}

// appendSequences appends the sequences of a block, and reports whether all decoders read them. Those of libzstd before
// 1.3.5, which Linux had before 5.16, refuse the description of a table if less than 4 bytes follow its start.
// Format: RFC 8878, 3.1.1.3.2.
func (e *Encoder) appendSequences(out []byte) (_ []byte, readable bool) {
	all := e.parsed.sequences
	n := len(all)
	switch {
	case n < 128:
		out = append(out, byte(n))
	case n < 0x7f00:
		out = append(out, byte(n>>8+128), byte(n))
	default:
		out = append(out, 255, byte(n-0x7f00), byte((n-0x7f00)>>8))
	}
	if n == 0 {
		return out, true
	}
	l, o, m := e.literals, e.offsets, e.lengths
	l.codes, o.codes, m.codes = l.codes[:0], o.codes[:0], m.codes[:0]
	for _, s := range all {
		l.codes = append(l.codes, literalCode(s.literals))
		o.codes = append(o.codes, offsetCode(s.offset))
		m.codes = append(m.codes, lengthCode(s.length-minMatch))
	}
	modes, table := len(out), 0
	out = append(out, 0)
	for i, c := range []*coder{l, o, m} {
		var mode byte
		start := len(out)
		if mode, out = c.choose(out); mode == described {
			table = start
		}
		out[modes] |= mode << (6 - 2*i)
	}
	out = e.appendBits(out)
	return out, len(out)-table >= 4
}

// appendBits appends the codes of the sequences and their extra bits, from the last sequence to the first, since they
// are read from the end.
func (e *Encoder) appendBits(out []byte) []byte {
	const room = 57 - 7 - maxStateBits // of the writer, for extra bits, after a sequence's states
	all, w := e.parsed.sequences, bitWriter{out: out}
	l, o, m := e.literals.table, e.offsets.table, e.lengths.table
	ofLiterals, ofOffsets, ofLengths := e.literals.codes, e.offsets.codes, e.lengths.codes
	i := len(all) - 1
	literals, offset, length := l.start(ofLiterals[i]), o.start(ofOffsets[i]), m.start(ofLengths[i])
	for {
		s := all[i]
		// How many extra bits each of the three parts has.
		a, b, c := uint(literalExtra[ofLiterals[i]]), uint(lengthExtra[ofLengths[i]]), uint(ofOffsets[i])
		w.add(uint64(s.literals)&(1<<a-1), a)
		if a+b+c > room {
			w.flush()
		}
		w.add(uint64(s.length-minMatch)&(1<<b-1), b)
		w.add(uint64(s.offset)&(1<<c-1), c)
		w.flush()
		if i--; i < 0 {
			break
		}
		offset = o.encode(&w, offset, ofOffsets[i])
		length = m.encode(&w, length, ofLengths[i])
		literals = l.encode(&w, literals, ofLiterals[i])
	}
	w.add(uint64(length)&(1<<m.log-1), m.log)
	w.add(uint64(offset)&(1<<o.log-1), o.log)
	w.add(uint64(literals)&(1<<l.log-1), l.log)
	w.add(1, 1)
	return w.close()
}

// matching returns how many bytes at a and b of content, which ends at to, are equal; a is before b.
func matching(content []byte, a, b, to int) int {
	start := b
	for b+8 <= to {
		if x := binary.LittleEndian.Uint64(content[a:]) ^ binary.LittleEndian.Uint64(content[b:]); x != 0 {
			return b - start + bits.TrailingZeros64(x)>>3
		}
		a, b = a+8, b+8
	}
	for b < to && content[a] == content[b] {
		a, b = a+1, b+1
	}
	return b - start
}
