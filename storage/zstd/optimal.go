package zstd

import "encoding/binary"

// optimal finds the sequences that take the least bits, if each code takes as many as it did in the pass before.
type optimal struct {
	tree    tree
	matches []match
	first   []uint32 // of matches, for each byte of the block
	costs   []int32  // of the cheapest way to each byte
	nodes   []node
	prices  prices
	path    []uint32
	rough   bool // in the first pass: of the lengths that a match can have, just the longest one counts
}

// node is the last step of the cheapest way to encode a block up to a byte.
type node struct {
	length, offset uint32 // of the match that ends there, or zeros for a literal
	literals       uint32 // since the last match
	last           [3]uint32
}

const (
	never  = 1 << 30 // a price
	passes = 3       // a fourth one makes blocks smaller by less than 0.1 %
)

// begin begins a content.
func (o *optimal) begin(content []byte) { o.tree.begin(content) }

// block sets p to the sequences and literals of content[from:to].
func (o *optimal) block(content []byte, from, to int, p *parsed) {
	o.find(content, from, to)
	offsets := p.last
	o.guess(content[from:to])
	for pass := range passes {
		o.rough = pass == 0
		if pass > 0 {
			o.learn(p)
		}
		p.sequences, p.literals, p.last = p.sequences[:0], p.literals[:0], offsets
		o.walk(content, from, to, p.last)
		o.collect(content, from, to, p)
	}
}

// find finds the matches of a block.
func (o *optimal) find(content []byte, from, to int) {
	o.matches, o.first = o.matches[:0], o.first[:0]
	for at := from; at < to; at++ {
		o.first = append(o.first, uint32(len(o.matches)))
		o.matches = o.tree.insert(content, at, o.matches)
	}
	o.first = append(o.first, uint32(len(o.matches)))
}

// guess sets the prices by the bytes of the block, and the predefined tables.
func (o *optimal) guess(block []byte) {
	var literals [256]uint32
	for _, c := range block {
		literals[c]++
	}
	o.prices.from(&literals, literalKind.weights(), lengthKind.weights(), offsetKind.weights())
}

// learn sets the prices by what a pass found.
func (o *optimal) learn(p *parsed) {
	var literals [256]uint32
	for _, c := range p.literals {
		literals[c]++
	}
	var runs, lengths, offsets counts
	for _, s := range p.sequences {
		runs[literalCode(s.literals)]++
		lengths[lengthCode(s.length-minMatch)]++
		offsets[offsetCode(s.offset)]++
	}
	o.prices.from(&literals, &runs, &lengths, &offsets)
}

// walk finds the cheapest way to each byte of a block.
func (o *optimal) walk(content []byte, from, to int, last [3]uint32) {
	if len(o.nodes) <= to-from {
		o.nodes, o.costs = make([]node, maxBlock+1), make([]int32, maxBlock+1)
	}
	nodes, costs := o.nodes[:to-from+1], o.costs[:to-from+1]
	for i := range costs {
		costs[i] = never
	}
	nodes[0], costs[0] = node{last: last}, o.prices.run[0]
	for i, cost := range costs[:to-from] {
		if cost == never {
			continue // in a long match
		}
		cur := &nodes[i]
		cur.arrive(nodes, i)
		cost += o.prices.literal[content[from+i]] + o.prices.ofRun(cur.literals+1) - o.prices.ofRun(cur.literals)
		if cost < costs[i+1] {
			costs[i+1], nodes[i+1].length, nodes[i+1].offset = cost, 0, 0
		}
		longest := max(o.repeats(content, from, to, i), o.others(content, from, to, i))
		if longest >= nice {
			for j := i + 1; j < i+longest; j++ {
				costs[j] = never
			}
		}
	}
	nodes[to-from].arrive(nodes, to-from)
}

// others tries the matches that were found, and returns the length of the longest one.
func (o *optimal) others(content []byte, from, to, i int) int {
	longest := minMatch - 1
	for _, m := range o.matches[o.first[i]:o.first[i+1]] {
		n := int(m.length)
		if n == nice {
			n = matching(content, from+i-int(m.offset), from+i, to)
		}
		n = min(n, to-from-i)
		o.relax(i, longest+1, n, m.offset+3)
		longest = max(longest, n)
	}
	return longest
}

// arrive fills in what follows from the node before.
func (n *node) arrive(nodes []node, i int) {
	switch {
	case i == 0:
	case n.length == 0:
		n.literals, n.last = nodes[i-1].literals+1, nodes[i-1].last
	default:
		before := &nodes[i-int(n.length)]
		n.literals, n.last = 0, after(before.last, n.offset, before.literals == 0)
	}
}

// after returns the last offsets after a match. Format: RFC 8878, 3.1.1.5.
func after(last [3]uint32, offset uint32, atOnce bool) [3]uint32 {
	if offset > 3 {
		return [3]uint32{offset - 3, last[0], last[1]}
	}
	if atOnce {
		offset++
	}
	switch offset {
	case 1:
		return last
	case 2:
		return [3]uint32{last[1], last[0], last[2]}
	case 3:
		return [3]uint32{last[2], last[0], last[1]}
	default:
		return [3]uint32{last[0] - 1, last[0], last[1]}
	}
}

// repeats tries the last offsets, and returns the length of the longest match.
func (o *optimal) repeats(content []byte, from, to, i int) (longest int) {
	cur, at := &o.nodes[i], from+i
	if at+4 > to {
		return 0
	}
	offsets := cur.last
	if cur.literals == 0 {
		offsets = [3]uint32{offsets[1], offsets[2], offsets[0] - 1}
	}
	word := binary.LittleEndian.Uint32(content[at:]) << 8
	for k, offset := range offsets {
		back := int(offset)
		if back == 0 || back > at || binary.LittleEndian.Uint32(content[at-back:])<<8 != word {
			continue
		}
		n := minMatch + matching(content, at-back+minMatch, at+minMatch, to)
		o.relax(i, minMatch, n, uint32(k+1))
		longest = max(longest, n)
	}
	return longest
}

// relax takes a match of some length to a node, if that is cheaper. Of a long match, just the longest counts.
func (o *optimal) relax(i, shortest, longest int, offset uint32) {
	price := o.costs[i] + o.prices.offsets[offsetCode(offset)] + o.prices.run[0]
	if longest >= nice || o.rough {
		if sum := price + o.prices.ofLength(uint32(longest)); longest >= shortest && sum < o.costs[i+longest] {
			o.costs[i+longest], o.nodes[i+longest].length, o.nodes[i+longest].offset = sum, uint32(longest), offset
		}
		return
	}
	lengths := &o.prices.length
	costs := o.costs[i : i+longest+1]
	for n := shortest; n < len(costs); n++ {
		if sum := price + lengths[n]; sum < costs[n] {
			costs[n] = sum
			o.nodes[i+n].length, o.nodes[i+n].offset = uint32(n), offset
		}
	}
}

// collect appends the sequences of the cheapest way.
func (o *optimal) collect(content []byte, from, to int, p *parsed) {
	o.path = o.path[:0]
	for i := uint32(to - from); i > 0; {
		n := o.nodes[i].length
		if n > 0 {
			o.path = append(o.path, i)
		}
		i -= max(n, 1)
	}
	start := from
	for k := len(o.path) - 1; k >= 0; k-- {
		n := o.nodes[o.path[k]]
		end := from + int(o.path[k])
		p.add(content[start:end-int(n.length)], n.offset, int(n.length))
		start = end
	}
	p.literals = append(p.literals, content[start:to]...)
	p.last = o.nodes[to-from].last
}
