package compose

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"syscall"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/squashfs"
)

// Blob is a layer to read.
type Blob struct {
	// Digest of the blob, which Open verifies; "" if only the unpacked layer is read.
	Digest digest.Digest
	// DiffID is the digest of its uncompressed tar stream.
	DiffID digest.Digest
	// Limits of what the layer may need.
	Limits Limits
	// Turn of the layers that are read at the same time.
	Turn Turn
	// Open opens the blob. At its end, the reader returns an error if the blob does not have the
	// expected digest.
	Open func(context.Context) (io.ReadCloser, error)
	// Verified says that the reader also returns an error if what it read, which is not compressed, does not have the
	// DiffID: it is not hashed again.
	Verified bool
}

// The content of a layer's pack: the unpacked layer, its tar-split file, and a note. It does not
// depend on the layers below.
const (
	diffName   = "diff"
	recordName = "tar-split.gz"
)

// note says what was packed. Digest and Blob are those of cache.Key: an entry of the cache that was
// copied over another one is found by them.
type note struct {
	// Digest of what was packed: the DiffID of a layer, or the digest of a file.
	Digest digest.Digest `json:"digest"`
	// Blob is the digest of the blob that was unpacked, "" if nothing was.
	Blob digest.Digest `json:"blob,omitempty"`
	// Size of the uncompressed tar stream in bytes.
	Size int64 `json:"size,omitempty"`
	// UIDs and GIDs are the owners of files, for the layer's record.
	UIDs []uint32 `json:"uids,omitempty"`
	GIDs []uint32 `json:"gids,omitempty"`
}

// PackLayer reads and verifies a layer, and writes its pack to out, in the format that AddLayer
// reads. It creates unnamed files in the folder tmp.
func PackLayer(ctx context.Context, compressor *squashfs.Compressor, blob Blob, out io.Writer, tmp string) error {
	split := &scratch{tmp: tmp}
	defer split.Close()
	pack := compressor.NewPacker(out)
	defer pack.Abort()
	r, size, err := readLayer(ctx, blob, pack, split, tmp)
	if err != nil {
		return err
	}
	content, err := split.content()
	if err != nil {
		return err
	}
	record, err := pack.Content(content)
	if err != nil {
		return err
	}
	about, err := json.Marshal(note{
		Digest: blob.DiffID, Blob: blob.Digest, Size: size, UIDs: sorted(r.uids), GIDs: sorted(r.gids),
	})
	if err != nil {
		return err
	}
	root := squashfs.NewDir(0o700, 0, 0, 0)
	root.Set(diffName, r.tree.root)
	root.Set(recordName, &squashfs.Inode{Mode: syscall.S_IFREG | 0o600, Content: record})
	return pack.Close(root, about)
}

// readLayer reads the layer once. If entries of it replace others, it reads the layer a second
// time, because the tar-split file must contain the replaced contents.
func readLayer(
	ctx context.Context, blob Blob, pack *squashfs.Packer, out *scratch, tmp string,
) (*reader, int64, error) {
	b := newBudget(ctx, blob)
	defer b.release()
	st, err := openStream(b, blob)
	if err != nil {
		return nil, 0, err
	}
	defer st.close()
	split, err := newSplitter(st, out)
	if err != nil {
		return nil, 0, err
	}
	r := newReader(pack, newTree(b, tmp), split)
	if err := r.read(); err != nil {
		return nil, 0, st.explain(ctx, err, blob.DiffID)
	}
	if err := st.verify(blob.DiffID); err != nil {
		return nil, 0, err
	}
	if len(r.superseded) > 0 {
		return r, st.size, splitAgain(b, blob, r.superseded, out)
	}
	return r, st.size, nil
}

// ReadLayer calls read with the uncompressed tar stream of a layer, and verifies its digest. It
// returns the size of the stream in bytes. A layer that exceeds its limits is an error of reading.
func ReadLayer(ctx context.Context, blob Blob, read func(io.Reader) error) (int64, error) {
	b := newBudget(ctx, blob)
	defer b.release()
	st, err := openStream(b, blob)
	if err != nil {
		return 0, err
	}
	defer st.close()
	r, w := io.Pipe()
	followed := make(chan error)
	go func() {
		err := b.follow(st, w)
		_ = w.CloseWithError(err) // io.EOF if it is nil
		followed <- err
	}()
	err = read(r)
	_ = r.Close() // read may not read all
	if exceeded := <-followed; isLimit(exceeded) {
		err = exceeded
	}
	if err != nil {
		return 0, st.explain(ctx, err, blob.DiffID)
	}
	if _, err := io.Copy(io.Discard, st); err != nil {
		return 0, err
	}
	return st.size, st.verify(blob.DiffID)
}

// unwrap returns the parts of the pack of a layer. The error is a *squashfs.Damage, also for the pack
// of another layer.
func unwrap(pack *squashfs.Pack, l Layer) (about note, diff, record *squashfs.Inode, err error) {
	if about, err = readNote(pack, l.DiffID); err != nil {
		return about, nil, nil, err
	}
	if about.Blob != "" && about.Blob != l.Digest {
		return about, nil, nil, pack.Damaged(fmt.Errorf("it was made of the blob %s, not %s", about.Blob, l.Digest))
	}
	diff, record = pack.Root.Entry(diffName), pack.Root.Entry(recordName)
	if diff == nil || !diff.IsDir() || record == nil {
		return about, nil, nil, pack.Damaged(errors.New("it is not the pack of a layer"))
	}
	return about, diff, record, nil
}

// readNote reads the note of a pack, and compares what was packed with what the caller wants.
func readNote(pack *squashfs.Pack, want digest.Digest) (about note, err error) {
	if err := json.Unmarshal(pack.Note, &about); err != nil {
		return about, pack.Damaged(fmt.Errorf("its note: %w", err))
	}
	if about.Digest != want {
		return about, pack.Damaged(fmt.Errorf("it is the pack of %s, not of %s", about.Digest, want))
	}
	return about, nil
}
