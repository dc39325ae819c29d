package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// ErrNothingToCompact says that nothing can be compacted.
var ErrNothingToCompact = errors.New("there are no two stores to compact")

// CompactOptions say how stores are compacted.
type CompactOptions struct {
	// All compacts the appliance's own store too, which stays where it is all the same.
	All bool
	// GraphRoot of CRI-O's own store.
	GraphRoot string
	// Write writes the stores as one.
	Write func(ctx context.Context, out io.Writer, p CompactPlan) error
	// CheckSpace says why there is no room for so many bytes.
	CheckSpace func(bytes int64) error
}

// Compact writes the stores that were attached as one, without what nothing refers to any more.
// That store replaces them when CRI-O starts next. While it is written, others may attach,
// detach and roll back: whether it can replace the stores is found out then.
func (m Manager) Compact(ctx context.Context, o CompactOptions) (Compaction, error) {
	release, err := m.lock(ctx, compactLock)
	if err != nil {
		return Compaction{}, err
	}
	defer release()
	plan, pending, err := m.planCompaction(ctx, o)
	if err != nil {
		return Compaction{}, err
	}
	if pending != nil {
		return *pending, nil
	}
	if o.CheckSpace != nil {
		if err := o.CheckSpace(plan.bytes()); err != nil {
			return Compaction{}, err
		}
	}
	store, err := m.parts().writeCompacted(ctx, o, plan)
	if err != nil {
		return Compaction{}, fmt.Errorf("compact %d stores: %w", len(plan.Stores), err)
	}
	c := Compaction{Store: store, Replaces: plan.replaces(store), GraphRoot: o.GraphRoot}
	return c, m.recordCompaction(ctx, c)
}

// planCompaction decides what is compacted, unless there is a compacted store already.
func (m Manager) planCompaction(ctx context.Context, o CompactOptions) (p CompactPlan, pending *Compaction, err error) {
	s, release, err := m.begin(ctx)
	if err != nil {
		return p, nil, err
	}
	defer release()
	if s.state.Compaction != nil {
		return p, s.state.Compaction, nil
	}
	p, err = s.planCompaction(o)
	return p, nil, err
}

// recordCompaction gives the compacted store its name, and notes that it is to replace others.
func (m Manager) recordCompaction(ctx context.Context, c Compaction) error {
	s, release, err := m.begin(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := os.Rename(s.dir.compacted(), s.dir.file(c.Store)); err != nil {
		return err
	}
	if err := atomicfile.SyncDir(string(s.dir)); err != nil {
		return err
	}
	s.state.Compaction = &c
	return s.save()
}

// writeCompacted writes the compacted store into the state's folder, and reads it again from
// the disk: it will be the only copy.
func (p parts) writeCompacted(ctx context.Context, o CompactOptions, plan CompactPlan) (Store, error) {
	path := p.dir.compacted()
	out, err := atomicfile.CreateVia(path+partSuffix, path, 0o600)
	if err != nil {
		return Store{}, err
	}
	defer out.Abort()
	sum, size := digest.SHA256.Digester(), &counter{}
	if err := o.Write(ctx, io.MultiWriter(out, sum.Hash(), size), plan); err != nil {
		return Store{}, err
	}
	if err := out.Commit(); err != nil {
		return Store{}, err
	}
	if err := evict(path); err != nil {
		return Store{}, err
	}
	written := source{Extent: Extent{Path: path, Size: size.n}, id: sum.Digest()}
	if err := written.copy(ctx, io.Discard, nil, nil); err != nil {
		return Store{}, err
	}
	image, err := p.sources.openImage(written.Extent)
	if err != nil {
		return Store{}, err
	}
	defer image.Close()
	c, err := readContent(image)
	if err != nil {
		return Store{}, err
	}
	return Store{ID: written.id, Name: plan.Name, Size: written.Size, Images: len(plan.Images), Token: c.Token}, nil
}

// evict removes a file from the kernel's page cache.
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

// replaces are the stores that the compacted one replaces. One of them may have all that is
// kept already, and then is the compacted one.
func (p CompactPlan) replaces(compacted Store) (ids []digest.Digest) {
	for _, o := range p.members {
		if o.ID != compacted.ID {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// bytes are what the stores have at most once they are one.
func (p CompactPlan) bytes() (sum int64) {
	for _, o := range p.members {
		sum += o.Size
	}
	return sum
}
