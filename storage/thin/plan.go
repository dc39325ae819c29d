package thin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// newLayer is a layer that gets a recipe.
type newLayer struct {
	layout.Layer
	records  []record
	gaps     []int64 // bytes of the skeleton before each file
	skeleton int64   // bytes
}

// baseInfo is what the plan needs to know of a source.
type baseInfo struct {
	id       string
	diffID   digest.Digest
	skeleton int64
}

// piece is a part of a content of the new store.
type piece struct {
	layer, file int // as in source, of plan.layers
	start       int64
	size        int
}

// job is a block to make.
type job struct {
	kind   int
	size   int
	pieces []piece
	spans  []span
}

// plan is what a thin delta consists of.
type plan struct {
	index
	layers []newLayer
	bases  []baseInfo // of the sources
	jobs   [streams][]job
	// of says which files the contents of the solid streams are.
	of [streams][]source
	// checked are the models that were compared with their records.
	checked map[source]bool
}

// plan reads the records of all layers, and decides what becomes of each content.
func (m *Maker) plan(ctx context.Context) (*plan, error) {
	p := &plan{}
	files, err := m.Store.open()
	if err != nil {
		return nil, err
	}
	if p.layers, err = readLayers(files); err != nil {
		return nil, fmt.Errorf("%s: %w", m.Store.Name, err)
	}
	found := newCandidates(p.layers)
	if p.bases, err = m.readBases(ctx, found); err != nil {
		return nil, err
	}
	for n := range p.layers {
		if err := p.add(ctx, n, found); err != nil {
			return nil, err
		}
	}
	p.name(m.Sources)
	return p, nil
}

// readLayers reads the records of the layers of a store, those with equal tar streams once.
func readLayers(files *squashfs.Reader) (all []newLayer, err error) {
	seen := map[digest.Digest]bool{}
	err = layout.Open(files).Layers(func(l layout.Layer) error {
		if !seen[l.UncompressedDigest] {
			seen[l.UncompressedDigest] = true
			all = append(all, newLayer{Layer: l})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for n := range all {
		l := &all[n]
		gap := int64(0)
		err := readSplit(files, l.ID, func(b []byte) { gap += int64(len(b)) }, func(r record) {
			l.records, l.gaps = append(l.records, r), append(l.gaps, gap)
			l.skeleton += gap
			gap = 0
		})
		if err != nil {
			return nil, err
		}
		l.skeleton += gap
	}
	return all, nil
}

// readBases reads the records of the sources.
func (m *Maker) readBases(ctx context.Context, found *candidates) ([]baseInfo, error) {
	stores, err := openBases(m.Bases)
	if err != nil {
		return nil, err
	}
	diffIDs := map[string]digest.Digest{}
	for n, files := range stores.files {
		err := layout.Open(files).Layers(func(l layout.Layer) error {
			diffIDs[l.ID] = l.UncompressedDigest
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Bases[n].Name, err)
		}
	}
	var all []baseInfo
	for n, id := range m.Sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		l, err := stores.layer(id)
		if err != nil {
			return nil, err
		}
		info, file := baseInfo{id: id, diffID: diffIDs[id]}, 0
		err = readSplit(l.files, id, func(b []byte) { info.skeleton += int64(len(b)) }, func(r record) {
			file++
			found.add(source{n, file}, r)
		})
		if err != nil {
			return nil, l.damaged("", err)
		}
		all = append(all, info)
	}
	return all, nil
}

// add decides what becomes of the contents of a layer.
func (p *plan) add(ctx context.Context, n int, found *candidates) error {
	l := &p.layers[n]
	rank := found.rank(l.records)
	r := recipe{
		diffID: l.UncompressedDigest, size: l.skeleton, contents: int64(len(l.records)), first: p.contents, row: n,
	}
	p.addSkeleton(n, rank)
	last := source{-1, 0}
	for i, rec := range l.records {
		if err := ctx.Err(); err != nil {
			return err
		}
		r.size += rec.size
		r.gaps.add(l.gaps[i])
		of := source{n, i + 1}
		key := key{rec.size, rec.sum}
		if from, ok := found.equal(rec, rank, last); ok {
			r.refs.add(0)
			p.append(same, from)
			last = from
			r.counts[same].add(rec.size, 0)
			continue
		}
		if number, ok := p.repeated(key, found); ok {
			r.refs.add(p.contents - number)
			continue
		}
		r.refs.add(0)
		kind := literal
		model, ok := found.model(rec, rank)
		if ok {
			kind = patched
		}
		found.made[key] = made{p.contents, kind, p.addContent(kind, of, rec.size, model)}
		p.append(kind, source{})
	}
	p.recipes = append(p.recipes, r)
	return nil
}

func (c *Count) add(size, packed int64) {
	c.Files++
	c.Size += size
	c.Packed += packed
}

// append adds a content to the runs.
func (p *plan) append(kind int, of source) {
	if n := len(p.runs) - 1; n >= 0 && p.runs[n].kind == kind {
		after := int(p.contents - p.runs[n].first)
		if from := p.runs[n].of; kind != same || of == (source{from.layer, from.file + after}) {
			p.contents++
			return
		}
	}
	r := run{first: p.contents, kind: kind, of: of}
	if kind != same {
		r.row = len(p.solid[kind].ends) - 1
	}
	p.runs = append(p.runs, r)
	p.contents++
}

// repeated returns the number of an equal content that was new, if a reader has its block at hand, or if
// it is long.
func (p *plan) repeated(k key, found *candidates) (int64, bool) {
	m, ok := found.made[k]
	return m.number, ok && (k.size >= minRepeated || m.job == len(p.jobs[m.kind])-1)
}

// margin is what a dictionary has before and after the range of the old content that corresponds to a
// block, in bytes.
const margin = (maxDictionary - maxBlock) / 2

// addContent adds a content to a solid stream, and returns the number of its last block.
func (p *plan) addContent(kind int, of source, size int64, m model) int {
	s := &p.solid[kind]
	s.ends = append(s.ends, s.size()+size)
	p.of[kind] = append(p.of[kind], of)
	for start := int64(0); start < size; {
		n := int(min(size-start, maxBlock))
		dict := m.span(start, n, size)
		if !p.room(kind, n, dict.size) {
			p.jobs[kind] = append(p.jobs[kind], job{kind: kind})
		}
		j := &p.jobs[kind][len(p.jobs[kind])-1]
		j.size += n
		j.pieces = append(j.pieces, piece{of.layer, of.file, start, n})
		if dict.size > 0 {
			j.spans = append(j.spans, dict)
		}
		start += int64(n)
	}
	return len(p.jobs[kind]) - 1
}

// room reports whether the last block has room for so many bytes, and its dictionary for others.
func (p *plan) room(kind, size, dictionary int) bool {
	n := len(p.jobs[kind]) - 1
	if n < 0 || p.jobs[kind][n].size+size > maxBlock {
		return false
	}
	for _, s := range p.jobs[kind][n].spans {
		dictionary += s.size
	}
	return dictionary <= maxDictionary
}

// addSkeleton adds the skeleton of a layer. Its model is that of the layer that comes first in rank. Blocks
// end with it, so that a reader reads no skeletons of other layers.
func (p *plan) addSkeleton(n int, rank []int) {
	m := model{}
	if len(rank) > 0 {
		m = model{source{rank[0], 0}, p.bases[rank[0]].skeleton}
	}
	size := p.layers[n].skeleton
	if size > 0 {
		p.jobs[skeletons] = append(p.jobs[skeletons], job{kind: skeletons})
	}
	p.addContent(skeletons, source{n, 0}, size, m)
}

// model is an old content that is similar to a new one. Without a size there is none.
type model struct {
	source
	size int64
}

// span returns the part of the model for the dictionary of a piece of a new content of size bytes.
func (m model) span(start int64, n int, size int64) span {
	if int64(n) == size && m.size <= maxDictionary {
		return span{m.source, 0, int(m.size)}
	}
	at := start
	if m.file == 0 { // what is new is all over a skeleton
		at = int64(float64(start) / float64(size) * float64(m.size))
	}
	at = max(min(at-margin, m.size-int64(n)-margin), 0)
	return span{m.source, at, int(min(int64(n)+2*margin, m.size-at))}
}

// name sets the IDs of the base layers that are used, in place of the numbers of the sources.
func (p *plan) name(ids []string) {
	numbers := map[int]int{}
	number := func(s *source) {
		n, ok := numbers[s.layer]
		if !ok {
			n = len(p.index.layers)
			numbers[s.layer] = n
			p.index.layers = append(p.index.layers, ids[s.layer])
		}
		s.layer = n
	}
	used := make([]bool, len(ids))
	for kind := range p.jobs {
		for _, j := range p.jobs[kind] {
			for _, s := range j.spans {
				used[s.layer] = true
			}
		}
	}
	for _, r := range p.runs {
		if r.kind == same {
			used[r.of.layer] = true
		}
	}
	for n, use := range used {
		if use {
			number(&source{layer: n})
		}
	}
	var named []baseInfo
	for n, use := range used {
		if use {
			named = append(named, p.bases[n])
		}
	}
	p.bases = named
	for kind := range p.jobs {
		for _, j := range p.jobs[kind] {
			for i := range j.spans {
				number(&j.spans[i].source)
			}
		}
	}
	for n := range p.runs {
		if p.runs[n].kind == same {
			number(&p.runs[n].of)
		}
	}
}

// count sums up what each layer takes, and finds the largest files.
func (p *plan) count() {
	for kind := range p.jobs {
		row, begin := 0, int64(0)
		for _, b := range p.solid[kind].blocks {
			for row < len(p.of[kind]) {
				start, end := p.solid[kind].extent(row)
				n := min(end, b.start+int64(b.size)) - max(start, b.start)
				begin += n * int64(b.packed) / int64(b.size)
				if end > b.start+int64(b.size) {
					break
				}
				p.counted(kind, p.of[kind][row], end-start, begin)
				row, begin = row+1, 0
			}
		}
	}
	slices.SortStableFunc(p.largest, func(a, b Largest) int { return cmp.Compare(b.Packed, a.Packed) })
	p.largest = p.largest[:min(len(p.largest), maxLargest)]
}

// maxLargest is how many files an index names, for people.
const maxLargest = 50

func (p *plan) counted(kind int, of source, size, packed int64) {
	r := &p.recipes[of.layer]
	r.counts[kind].add(size, packed)
	if kind != skeletons {
		name := p.layers[of.layer].records[of.file-1].name
		p.largest = append(p.largest, Largest{DiffID: r.diffID, Path: name, Size: size, Packed: packed})
		if len(p.largest) > 100*maxLargest {
			slices.SortStableFunc(p.largest, func(a, b Largest) int { return cmp.Compare(b.Packed, a.Packed) })
			p.largest = p.largest[:maxLargest]
		}
	}
}
