package compose

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors of a layer that needs more than its Limits permit.
var (
	ErrTooManyFiles = fault.New(fault.Input, "layer has too many files",
		"an image that nobody vouches for may be hostile: remove it; --max-layer-files raises the limit")
	ErrTooLarge = fault.New(fault.Input, "layer is too large",
		"an image that nobody vouches for may be hostile: remove it; --max-layer-size raises the limit")
	ErrWindow = fault.New(fault.Input, "layer needs too much memory to decompress",
		"compress the layer again, with a window of 128 MiB at most")
)

// Limits bound what is held and written for one layer, whose author may be hostile: a few bytes can
// name a million folders, or claim 100 TB of zeros. A field that is zero has its default.
type Limits struct {
	// Files is the number of names: of entries, and of folders that have no entry.
	Files int64
	// Size in bytes of the layer's files, and of its tar stream.
	Size int64
}

// The defaults. The largest layers of public images have some 300,000 names (Python and Node.js
// environments) or, with language models, some ten GB. A tree of DefaultFiles files takes 40 MB,
// one of as many folders 200 MB.
const (
	DefaultFiles = 500_000
	DefaultSize  = 128 << 30
)

// What else one file may take, on average.
const (
	nameBytes = 128 // of name, target and attributes; in real layers it is some 40
	pathSteps = 64  // directories and symbolic links on the way; in real layers some 10
)

const (
	maxDepth   = 2048      // of directories: as many as PATH_MAX can name
	smallTree  = 1 << 16   // files; a layer that has more waits for its turn
	wholeSteps = 1_000_000 // for all files together: a layer of few files may have long paths
)

// Turn lets one layer that needs much memory be read at a time. Layers with a nil Turn do not wait for each other.
type Turn chan struct{}

// NewTurn returns a Turn that nobody has.
func NewTurn() Turn { return make(Turn, 1) }

// budget counts what a layer needs.
type budget struct {
	ctx    context.Context
	limits Limits
	turn   Turn
	// holdsTurn means that this layer is the one that is read.
	holdsTurn bool

	files, size, bytes, steps int64
}

func newBudget(ctx context.Context, blob Blob) *budget {
	l := blob.Limits
	l.Files, l.Size = cmp.Or(l.Files, DefaultFiles), cmp.Or(l.Size, DefaultSize)
	return &budget{ctx: ctx, limits: l, turn: blob.Turn}
}

// wait waits for the turn of the layer.
func (b *budget) wait() error {
	if b.holdsTurn || b.turn == nil {
		return b.ctx.Err()
	}
	select {
	case b.turn <- struct{}{}:
		b.holdsTurn = true
		return nil
	case <-b.ctx.Done():
		return b.ctx.Err()
	}
}

func (b *budget) release() {
	if b.holdsTurn {
		b.holdsTurn = false
		<-b.turn
	}
}

// entry counts an entry of the tar stream, before its content is read.
func (b *budget) entry(hdr *tar.Header) error {
	held := len(hdr.Linkname)
	for key, value := range hdr.PAXRecords {
		if hdr.Typeflag == tar.TypeLink || strings.HasPrefix(key, xattrRecord) {
			held += len(key) + len(value)
		}
	}
	if hdr.Typeflag == tar.TypeLink {
		held += len(hdr.Name) // its header is kept until the end of the stream
	}
	if hasContent(hdr) {
		if b.size += hdr.Size; hdr.Size > b.limits.Size || b.size > b.limits.Size {
			return fmt.Errorf("%w: its files have more than %s", ErrTooLarge, bytesize.Format(b.limits.Size))
		}
	}
	return b.name(held)
}

// name counts a name of the tree, of so many bytes.
func (b *budget) name(size int) error {
	b.files++
	b.bytes += int64(size)
	if b.files > b.limits.Files {
		return fmt.Errorf("%w: more than %d", ErrTooManyFiles, b.limits.Files)
	}
	if b.bytes > nameBytes*b.limits.Files {
		return fmt.Errorf("%w: their names, targets and attributes have more than %d bytes", ErrTooManyFiles,
			nameBytes*b.limits.Files)
	}
	if b.files > smallTree || b.bytes > nameBytes*smallTree {
		return b.wait()
	}
	return b.ctx.Err()
}

// step counts steps on the way to a file.
func (b *budget) step(n int) error {
	if b.steps += int64(n); b.steps > pathSteps*b.limits.Files+wholeSteps {
		return fmt.Errorf("%w: their paths have more than %d steps", ErrTooManyFiles, pathSteps*b.limits.Files+wholeSteps)
	}
	return nil
}

// reader stops with the context: the holes of a sparse file are read without reading the stream.
func (b *budget) reader(r io.Reader) io.Reader { return &stoppable{b.ctx, r} }

type stoppable struct {
	ctx context.Context
	r   io.Reader
}

func (s *stoppable) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	return s.r.Read(p)
}

func isLimit(err error) bool {
	return errors.Is(err, ErrTooManyFiles) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrWindow)
}
