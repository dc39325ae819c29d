package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/thin"
)

// Why the store of a thin delta cannot be put together.
var (
	ErrThinInPlace = fault.New(fault.Input, "a thin delta cannot be used in place: its store has yet to be put together",
		"leave out --in-place")
	// ErrThinDiffers is for a store that is repaired, and was made by another version of pinbox-node.
	ErrThinDiffers = fault.New(fault.Input, "another store was made of the thin delta than before",
		"attach the delta that `pinbox delta` makes without --thin")
)

// Space that it takes to put a store together, besides that of the store: its packs are freed while the store is
// written. What is read ahead, documents and the largest layer's contents that other layers have take some more.
const (
	thinShare = 64 // of the store: the hash tree before it is behind the store, 1/127, and parts of blocks
	thinExtra = 16 << 20
)

func needsOf(layers []string) (all []pinset.Need) {
	for _, id := range layers {
		all = append(all, pinset.Need{Layer: id, Link: layout.LinkName(id)})
	}
	return all
}

// composeThin makes the store of a thin delta, and puts it in the place of the thin delta in g. Any other store stays
// as it is.
func composeThin(
	ctx context.Context, s *session, g *staged, store Store, c content, o AttachOptions,
) (Store, error) {
	switch {
	case c.Delta.Thin == nil:
		return store, nil
	case o.InPlace:
		return store, ErrThinInPlace
	}
	store.Thin, store.ID, store.Size = g.id, "", c.Delta.Thin.StoreSize
	most := store.Size + store.Size/thinShare + thinExtra
	if err := o.fits(most); err != nil {
		return store, err
	}
	if s.dry {
		return store, nil
	}
	if err := s.save(); err != nil { // ReadState refuses a folder that has stores but no state
		return store, err
	}
	in, err := openThin(s, g.Extent, c.Delta)
	if err != nil {
		return store, cure(err)
	}
	defer in.close()
	w := newRebuilding(store, c, o)
	made, found, err := s.write(ctx, s.dir.composed(), func(out io.Writer) error {
		return in.retried(func() error { return w.write(ctx, in, &limited{out, most}, string(s.dir)) })
	}, w.total())
	if err != nil {
		return store, cure(err)
	}
	w.add(w.all) // the sizes in the lock and in delta.json may be others
	g.discard()  // the thin delta
	*g = *made
	store.ID, store.Size, store.Token, store.Verity = g.id, g.Size, found.Token, g.tree
	return store, nil
}

// limited writes at most so many bytes.
type limited struct {
	io.Writer
	left int64
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= int64(len(p)); l.left < 0 {
		return 0, fmt.Errorf("%w: its store is larger than its delta.json says", thin.ErrDamaged)
	}
	return l.Writer.Write(p)
}

// cure adds what a node can do about a thin delta or a base that is damaged.
func cure(err error) error {
	switch {
	case errors.Is(err, thin.ErrBase):
		return fault.With(err, fault.Damaged, "attach the delta that `pinbox delta` makes without --thin, or a full store "+
			"of the release, or let CRI-O pull the image from its registry: they read nothing of this base; or detach the "+
			"base and attach it again from its medium, or another store that has the layer; `pinbox-node verify` finds all "+
			"layers that are damaged")
	case errors.Is(err, thin.ErrDamaged):
		return fault.With(err, fault.Damaged, "find out who made it; `pinbox verify` with --base checks the original")
	}
	return err
}

// reattachWhole is for the store of a thin delta that was attached as a whole before.
func reattachWhole(ctx context.Context, s *session, store Store, src source, o AttachOptions) (Attached, error) {
	s.state.store(store.ID).Thin = store.Thin
	if err := s.save(); err != nil {
		return Attached{}, err
	}
	return s.reattach(ctx, *s.state.known(store.ID), src, o)
}

// composeThinAgain makes the store of a thin delta that was attached before.
func composeThinAgain(ctx context.Context, s *session, g *staged, store Store, o AttachOptions) (Store, error) {
	c, err := s.sources.content(g)
	if err == nil {
		err = s.admit(store, c)
	}
	if err != nil {
		return store, err
	}
	again, err := composeThin(ctx, s, g, store, c, o)
	if err == nil && again.ID != store.ID { // the encoder is another one
		err = fmt.Errorf("%w: %s, not %s", ErrThinDiffers, Short(again.ID), Short(store.ID))
	}
	return again, err
}

// thinSource is an open thin delta with its bases.
type thinSource struct {
	documents squashfsFile
	layers    *thin.Reader
	bases     []thin.Store
	files     []io.Closer
}

// retried calls write, which writes nothing before it has read all layers. If a base has a damaged content of a layer
// that another one has, too, it is called again with that one.
func (in *thinSource) retried(write func() error) error {
	for tries := 1; ; tries++ {
		err := write()
		var damage *thin.BaseError
		if !errors.As(err, &damage) || len(damage.Others) == 0 || tries == len(in.bases) {
			return err
		}
		n := slices.IndexFunc(in.bases, func(b thin.Store) bool { return b.Name == damage.Store })
		last := in.bases[n]
		in.bases = append(slices.Delete(in.bases, n, n+1), last)
	}
}

// openThin opens a thin delta that was verified, and those of the mounted stores that have layers which it reads.
func openThin(s *session, e mount.Extent, d pinset.Delta) (in *thinSource, err error) {
	in = &thinSource{}
	defer func() {
		if err != nil {
			in.close()
		}
	}()
	if in.documents, err = openSquashfs(e); err != nil {
		return in, err
	}
	in.files = append(in.files, in.documents)
	mounted, err := mount.ReadTable()
	if err != nil {
		return in, err
	}
	for _, root := range append(s.slots.mountedExcept(Store{}, mounted), s.slots.others...) {
		if has, _ := providers([]string{root}, needsOf(d.Thin.Reads)); len(has) == 0 {
			continue
		}
		device, err := mount.DeviceAt(root) // not the file: the device may verify what is read
		if errors.Is(err, mount.ErrNone) {
			continue // a folder of another program
		}
		if err != nil {
			return in, err
		}
		base, err := in.open(device)
		if err != nil {
			return in, err
		}
		base.Name = baseName(s, root)
		in.bases = append(in.bases, base)
	}
	itself, err := in.open(e)
	if err != nil {
		return in, err
	}
	if in.layers, err = thin.Open(itself, thin.Limits{}); err != nil {
		return in, err
	}
	for _, layer := range in.layers.Reads() {
		if !slices.Contains(d.Thin.Reads, layer) {
			return in, fmt.Errorf("%w: its recipes read the layer %s, which its delta.json does not name",
				thin.ErrDamaged, layer)
		}
	}
	return in, nil
}

// baseName names the store at a slot in messages.
func baseName(s *session, root string) string {
	for _, o := range s.state.Stores {
		if s.slots.path(o) == root {
			return fmt.Sprintf("the store %s, slot %s", o.Title(), o.Slot)
		}
	}
	if root == s.slots.all[0] {
		return "the appliance's own store"
	}
	return "the store at " + root
}

func (in *thinSource) open(e mount.Extent) (thin.Store, error) {
	f, err := open(e.Path, os.O_RDONLY)
	if err != nil {
		return thin.Store{}, err
	}
	in.files = append(in.files, f)
	return thin.Store{
		Name: e.Path, Size: e.Size,
		File: io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), e.Offset, e.Size),
	}, nil
}

func (in *thinSource) close() {
	for _, f := range in.files {
		_ = f.Close() // only read
	}
}
