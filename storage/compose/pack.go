package compose

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// Blob is a layer to read.
type Blob struct {
	// DiffID is the digest of its uncompressed tar stream.
	DiffID digest.Digest
	// Open starts to read the blob; the reader fails at its end if the blob is not
	// the one that was asked for.
	Open func(context.Context) (io.ReadCloser, error)
}

// What a layer's pack holds: the unpacked layer, the record of its tar stream, and a
// note. Nothing of it depends on the layers below.
const (
	diffName   = "diff"
	recordName = "tar-split.gz"
)

type note struct {
	// Size of the uncompressed tar stream in bytes.
	Size int64 `json:"size"`
	// Owners of files, for the layer's record.
	UIDs []uint32 `json:"uids,omitempty"`
	GIDs []uint32 `json:"gids,omitempty"`
}

// PackLayer reads a layer once and writes it to out, in the form that AddLayer takes.
// The folder tmp takes a file that has no name.
func PackLayer(ctx context.Context, compressor *squashfs.Compressor, blob Blob, out io.Writer, tmp string) error {
	spool, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return err
	}
	defer spool.Close()
	pack := compressor.NewPacker(out)
	defer pack.Abort()
	r, size, err := readLayer(ctx, blob, pack, spool)
	if err != nil {
		return err
	}
	if _, err := spool.Seek(0, io.SeekStart); err != nil {
		return err
	}
	record, err := pack.Content(spool)
	if err != nil {
		return err
	}
	about, err := json.Marshal(note{Size: size, UIDs: sorted(r.uids), GIDs: sorted(r.gids)})
	if err != nil {
		return err
	}
	root := squashfs.NewDir(0o700, 0, 0, 0)
	root.Set(diffName, r.tree.root)
	root.Set(recordName, &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, Content: record})
	return pack.Close(root, about)
}

// readLayer reads the layer once. If entries of it replace others, it reads it
// again, for its record must hold what was replaced.
func readLayer(ctx context.Context, blob Blob, pack *squashfs.Packer, spool *os.File) (*reader, int64, error) {
	st, err := openStream(ctx, blob.Open)
	if err != nil {
		return nil, 0, err
	}
	defer st.close()
	split, err := newSplitter(st, spool)
	if err != nil {
		return nil, 0, err
	}
	r := newReader(pack, newTree(), split)
	if err := r.read(); err != nil {
		return nil, 0, st.explain(ctx, err, blob.DiffID)
	}
	if err := st.verify(blob.DiffID); err != nil {
		return nil, 0, err
	}
	if len(r.superseded) > 0 {
		return r, st.size, splitAgain(ctx, blob, r.superseded, spool)
	}
	return r, st.size, nil
}

// ReadLayer gives a layer's uncompressed tar stream to read, once, and compares it
// with the layer's digest. It returns the stream's size in bytes.
func ReadLayer(ctx context.Context, blob Blob, read func(io.Reader) error) (int64, error) {
	st, err := openStream(ctx, blob.Open)
	if err != nil {
		return 0, err
	}
	defer st.close()
	if err := read(st); err != nil {
		return 0, st.explain(ctx, err, blob.DiffID)
	}
	if _, err := io.Copy(io.Discard, st); err != nil {
		return 0, err
	}
	return st.size, st.verify(blob.DiffID)
}

// unwrap takes a layer's pack apart.
func unwrap(pack *squashfs.Pack) (about note, diff, record *squashfs.Inode, err error) {
	if err := json.Unmarshal(pack.Note, &about); err != nil {
		return about, nil, nil, fmt.Errorf("%w: its note: %w", squashfs.ErrDamaged, err)
	}
	diff, record = pack.Root.Entry(diffName), pack.Root.Entry(recordName)
	if diff == nil || !diff.IsDir() || record == nil {
		return about, nil, nil, fmt.Errorf("%w: it is not that of a layer", squashfs.ErrDamaged)
	}
	return about, diff, record, nil
}
