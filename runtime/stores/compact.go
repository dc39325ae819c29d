package stores

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrNothingToCompact means that fewer than two stores can be compacted.
var ErrNothingToCompact = fault.New(fault.Input, "compaction needs at least two stores",
	"`pinbox-node status` lists the stores; --all includes the appliance's own store")

// CompactOptions are the options of [Manager.Compact].
type CompactOptions struct {
	// All includes the appliance's own store. It is read, but not replaced.
	All bool
	// GraphRoots of CRI-O's main store.
	GraphRoots []string
	// Write writes the compacted store; nil means [WriteCompacted].
	Write func(ctx context.Context, out io.Writer, p CompactPlan) error
	// CheckSpace returns an error if the state's folder has no room for so many bytes; nil
	// skips the check.
	CheckSpace func(bytes int64) error
	// Progress is called with the bytes written so far and the size of the store; nil is fine.
	Progress func(written, size int64)
}

// Compact writes the attached stores as one, without the images and layers that nothing refers
// to. The compacted store replaces them before CRI-O next starts. Other processes may attach,
// detach and roll back while it is written. So whether it can replace the stores is decided
// only then.
func (m Manager) Compact(ctx context.Context, o CompactOptions) (Compaction, error) {
	if !m.DryRun {
		unlock, err := m.lock(ctx, compactLock)
		if err != nil {
			return Compaction{}, err
		}
		defer unlock()
	}
	plan, pending, err := m.planCompaction(ctx, o)
	if err != nil {
		return Compaction{}, err
	}
	if pending != nil {
		return *pending, nil
	}
	plan.TempDir, plan.Progress = m.Dir, o.Progress
	if o.CheckSpace != nil {
		if err := o.CheckSpace(plan.bytes()); err != nil {
			return Compaction{}, err
		}
	}
	if m.DryRun { // how large the store is, is known once it is written: at most so large
		return Compaction{Store: Store{Size: plan.bytes()}, Replaces: plan.replaces(Store{})}, nil
	}
	store, err := m.tools().writeCompacted(ctx, o, plan)
	if err != nil {
		return Compaction{}, fmt.Errorf("compact %d stores: %w", len(plan.Stores), err)
	}
	c := Compaction{Store: store, Replaces: plan.replaces(store), GraphRoots: o.GraphRoots}
	return c, m.recordCompaction(ctx, c)
}

// planCompaction makes the plan, or returns the compaction that is already pending.
func (m Manager) planCompaction(ctx context.Context, o CompactOptions) (p CompactPlan, pending *Compaction, err error) {
	s, unlock, err := m.beginOrLook(ctx)
	if err != nil {
		return p, nil, err
	}
	defer unlock()
	if s.state.Compaction != nil {
		return p, s.state.Compaction, nil
	}
	p, err = s.planCompaction(o)
	return p, nil, err
}

// recordCompaction gives the compacted store its final name and saves the compaction in the state.
func (m Manager) recordCompaction(ctx context.Context, c Compaction) error {
	s, unlock, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := s.dir.adopt(s.dir.compacted(), c.Store); err != nil {
		return err
	}
	s.state.Compaction = &c
	return s.save()
}

// writeCompacted writes the compacted store into the state's folder.
func (p tools) writeCompacted(ctx context.Context, o CompactOptions, plan CompactPlan) (Store, error) {
	write := o.Write
	if write == nil {
		write = WriteCompacted
	}
	g, c, err := p.write(ctx, p.dir.compacted(), func(out io.Writer) error { return write(ctx, out, plan) }, nil)
	if err != nil {
		return Store{}, err
	}
	return Store{
		ID: g.id, ReleaseID: c.Lock.ReleaseID, Size: g.Size, Images: len(plan.Images), Token: c.Token, Verity: g.tree,
	}, nil
}

// write writes a store to a path in the state's folder. It then reads the store from the disk, not from the page
// cache, since what it was made of will be removed. done is called with the bytes that were read so far; nil is
// fine.
func (p tools) write(
	ctx context.Context, path string, write func(io.Writer) error, done func(read int64),
) (*staged, content, error) {
	out, err := atomicfile.CreateLarge(path, 0o600)
	if err != nil {
		return nil, content{}, err
	}
	defer out.Abort()
	sum, size := digest.SHA256.Digester(), &counter{}
	if err := write(io.MultiWriter(out, sum.Hash(), size)); err != nil {
		return nil, content{}, err
	}
	if err := out.Commit(); err != nil {
		return nil, content{}, err
	}
	if err := evict(path); err != nil {
		return nil, content{}, err
	}
	written := source{Extent: mount.Extent{Path: path, Size: size.n}, id: sum.Digest()}
	_, tree, err := written.copy(ctx, io.Discard, func(read, _ int64) {
		if done != nil {
			done(read)
		}
	})
	if err != nil {
		return nil, content{}, err
	}
	g := &staged{Extent: written.Extent, id: written.id, tree: tree, made: path}
	c, err := p.sources.content(g)
	return g, c, err
}

// evict drops a file from the kernel's page cache.
func evict(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) {
	c.n += int64(len(p))
	return len(p), nil
}

// replaces returns the IDs of the stores that the compacted one replaces. If one of them equals
// the compacted store, byte for byte, it stays.
func (p CompactPlan) replaces(compacted Store) (ids []digest.Digest) {
	for _, o := range p.attached {
		if o.ID != compacted.ID {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// bytes is the size that the compacted store has at most.
func (p CompactPlan) bytes() (sum int64) {
	for _, o := range p.attached {
		sum += o.Size
	}
	return sum
}
