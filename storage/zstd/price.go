package zstd

import "math/bits"

// prices are the bits, times 256, that parts of sequences take if they occur as often as in the pass before.
type prices struct {
	literal [256]int32
	run     [maxRun + 1]int32 // of so many literals
	length  [nice + 1]int32   // of a match

	literals, lengths, offsets [maxCodes]int32 // of codes, with their extra bits
}

// maxRun is the largest number of literals whose price is kept.
const maxRun = 256

// from sets the prices by the numbers of literals and codes.
func (p *prices) from(literals *[256]uint32, runs, lengths, offsets *counts) {
	var total uint32
	for _, n := range literals {
		total += n
	}
	for i, n := range literals {
		// The codes of literals have 1 to 11 bits.
		p.literal[i] = min(max(price(n, total, 256), 1<<8), 11<<8)
	}
	codePrices(&p.literals, runs, literalKind.all, func(code int) uint8 { return literalExtra[code] })
	codePrices(&p.lengths, lengths, lengthKind.all, func(code int) uint8 { return lengthExtra[code] })
	codePrices(&p.offsets, offsets, offsetKind.all, func(code int) uint8 { return uint8(code) })
	for n := range p.run {
		p.run[n] = p.literals[literalCode(uint32(n))]
	}
	for n := minMatch; n < len(p.length); n++ {
		p.length[n] = p.lengths[lengthCode(uint32(n-minMatch))]
	}
}

func codePrices(p *[maxCodes]int32, occur *counts, all int, extra func(code int) uint8) {
	var total int32
	for _, n := range occur[:all] {
		total += n
	}
	for i, n := range occur[:all] {
		p[i] = price(uint32(n), uint32(total), uint32(all)) + int32(extra(i))<<8
	}
}

// price is that of one of n among total, of so many kinds. Each kind counts a quarter more, since one that does not
// occur may be chosen, too.
func price(n, total, kinds uint32) int32 {
	return int32(log2(4*total+kinds) - log2(4*n+1))
}

func (p *prices) ofRun(n uint32) int32 {
	if n <= maxRun {
		return p.run[n]
	}
	return p.literals[bits.Len32(n)+18]
}

func (p *prices) ofLength(n uint32) int32 {
	if n <= nice {
		return p.length[n]
	}
	return p.lengths[lengthCode(n-minMatch)]
}
