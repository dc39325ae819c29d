package stores

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fanout"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/verity"
)

// staged is a store whose digest and signature were compared, and which is not attached yet. Only
// now its documents are read: from the copy, so that they are those that were verified.
type staged struct {
	// Extent of the copy, or of the source if the store is used in place.
	mount.Extent
	id   digest.Digest
	tree verity.Tree
	copy *atomicfile.File // nil in place
	// made is the path of a complete file that does not have the name of its store yet; "" if there is none.
	made string
}

// stage copies a store into the state's folder, or only reads it in place or in a dry run, and compares
// its digest and its signature. It reads nothing in it. The caller discards the result.
func (s sources) stage(ctx context.Context, src source, o AttachOptions) (_ *staged, err error) {
	if (o.InPlace || o.dry) && src.parts {
		return nil, fmt.Errorf("%s: %w", src.Path, ErrInParts)
	}
	g, to := &staged{Extent: src.Extent}, io.Discard
	switch {
	case o.Take && src.Offset == 0:
		g.made = src.Path
	case !o.InPlace:
		if err := o.fits(src.Size); err != nil {
			return nil, fmt.Errorf("%s: %w", src.Path, err)
		}
		if o.dry {
			break
		}
		path := s.dir.incoming()
		if g.copy, err = atomicfile.CreateLarge(path, 0o600); err != nil {
			return nil, err
		}
		g.Extent, to = mount.Extent{Path: g.copy.Name(), Size: src.Size}, g.copy
	}
	g.id, g.tree, err = src.copy(ctx, to, func(read, size int64) { o.done(Reading, Store{}, read, size) })
	if err != nil {
		g.discard()
		return nil, fmt.Errorf("%s: %w", src.Path, err)
	}
	return g, nil
}

// discard removes the copy, unless the store was attached.
func (g *staged) discard() {
	if g.copy != nil {
		g.copy.Abort()
		g.copy = nil
	}
	if g.made != "" {
		_ = os.Remove(g.made) // the next process does
		g.made = ""
	}
}

// commit gives the copy the name of the store: complete and synced, or not at all.
func (g *staged) commit(dir folder, o Store) error {
	if g.copy != nil {
		if err := g.copy.Commit(); err != nil {
			return err
		}
		g.copy, g.made = nil, dir.incoming()
	}
	if g.made == "" {
		return nil
	}
	if err := dir.adopt(g.made, o); err != nil {
		return err
	}
	g.made = ""
	return nil
}

// place sets where the store is: where it was found if it is used in place, else in the state's folder.
func (s source) place(o *Store, as AttachOptions) {
	o.Size, o.Path, o.Offset, o.Medium = s.Size, "", 0, false
	if as.InPlace {
		o.Path, o.Offset, o.Medium = s.Path, s.Offset, s.medium
	}
}

// content reads the documents of the store, and checks that CRI-O can list its images.
func (s sources) content(g *staged) (content, error) {
	store, err := s.openFS(g.Extent)
	if err != nil {
		return content{}, fault.Wrap(ErrDamaged, err)
	}
	defer store.Close()
	return examine(store)
}

// takeProgram takes the program of a new release out of its store.
func takeProgram(ctx context.Context, s *session, g *staged, c content, o AttachOptions) (*pinset.Program, error) {
	store, err := s.sources.openFS(g.Extent)
	if err != nil {
		return nil, fault.Wrap(ErrDamaged, err)
	}
	defer store.Close()
	return s.programs.take(ctx, s.state, store, c.Lock, o)
}

// reader reads the bytes of a store.
func (s source) reader() (io.ReadCloser, error) {
	if s.parts {
		return openParts(s.Path)
	}
	f, err := open(s.Path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	_ = unix.Fadvise(int(f.Fd()), s.Offset, s.Size, unix.FADV_SEQUENTIAL)
	in := io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), s.Offset, s.Size)
	return struct {
		io.Reader
		io.Closer
	}{in, f}, nil
}

// copy copies a store, returns its digest, and compares it with the expected one. It also checks the
// signature if the node has keys, and returns the hash tree behind the store, zero if there is none.
func (s source) copy(
	ctx context.Context, to io.Writer, progress func(read, size int64),
) (id digest.Digest, tree verity.Tree, err error) {
	if err := s.checkSignature(""); err != nil {
		return "", tree, err
	}
	check := verity.NewChecker(s.Size)
	to = fanout.Writer(to, check)
	in, err := s.reader()
	if err != nil {
		return "", tree, err
	}
	defer in.Close()
	want := transfer.Content{Size: s.Size, Digest: s.id}
	id, err = transfer.Copy(ctx, to, in, want, func(bytes int64) {
		if progress != nil {
			progress(bytes, s.Size)
		}
	})
	if err == nil {
		if err = s.checkSignature(id); err != nil {
			return "", tree, err
		}
		if tree, err = check.Tree(); errors.Is(err, verity.ErrNoTree) {
			return id, verity.Tree{}, nil
		}
	}
	if errors.Is(err, transfer.ErrRead) || errors.Is(err, transfer.ErrDigest) || errors.Is(err, verity.ErrDiffers) {
		err = fault.Wrap(ErrDamaged, err)
	}
	return id, tree, err
}
