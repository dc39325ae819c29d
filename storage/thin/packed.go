package thin

import (
	"context"
	"errors"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// compareBlocks finds out of which base layers a reader may take data blocks as they are: those whose files have,
// in all bases, the blocks that they have in the store. They differ if another encoder has made them.
func (m *Maker) compareBlocks(ctx context.Context, p *plan) error {
	p.packed = make([]bool, len(p.index.layers))
	for n := range p.packed {
		p.packed[n] = true
	}
	for _, base := range m.Bases {
		if err := m.compareBase(ctx, p, base); err != nil {
			return err
		}
	}
	return nil
}

func (m *Maker) compareBase(ctx context.Context, p *plan, base Store) error {
	b, err := openBases([]Store{base})
	if err != nil {
		return err
	}
	defer b.close()
	store, err := m.Store.open()
	if err != nil {
		return err
	}
	least := int64(store.Options().BlockSize) // a shorter file is in a fragment block
	for n, l := range p.layers {
		if err := ctx.Err(); err != nil {
			return err
		}
		next, refs := p.recipes[n].first, decoder{rest: p.recipes[n].refs}
		for _, r := range l.records {
			if refs.number("content", next) > 0 {
				continue
			}
			kind, of, _ := p.content(next)
			next++
			if kind != same || r.size < least || !p.packed[of.layer] {
				continue
			}
			if p.packed[of.layer], err = equalBlocks(b, p.index.layers[of.layer], of.file, store, l.ID, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// equalBlocks compares the blocks of a file of a base with those of the same file in a layer of the store.
func equalBlocks(b *bases, id string, number int, store *squashfs.Reader, in string, r record) (bool, error) {
	layer, err := b.layer(id)
	if errors.Is(err, ErrNoLayer) { // it is in another base
		return true, nil
	}
	if err != nil {
		return false, err
	}
	old, _, err := layer.open(number)
	if err != nil {
		return false, err
	}
	defer old.Close()
	file, err := r.open(store, in)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return squashfs.EqualBlocks(old, file)
}
