package iso

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/pinset"
)

// undoVersion is the version of the undo file.
const undoVersion = 1

// undo describes how to restore the base.
type undo struct {
	Version int         `json:"version"`
	Size    int64       `json:"size"`
	Patches []undoPatch `json:"patches"`
}

type undoPatch struct {
	Offset  int64  `json:"offset"`
	Content []byte `json:"content"`
}

// undo returns the undo file: the content of the base in the areas of these patches.
func (ed editor) undo(patches []patch) ([]byte, error) {
	u := undo{Version: undoVersion, Size: ed.Size()}
	for _, p := range patches {
		before := make([]byte, len(p.content))
		if _, err := ed.ReadAt(before, p.offset); err != nil {
			return nil, err
		}
		u.Patches = append(u.Patches, undoPatch{p.offset, before})
	}
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(text); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// pristine returns the layout of the base.
func (i *Image) pristine() (layout, error) {
	back, err := i.Find(Dir + "/" + UndoName)
	if errors.Is(err, iso9660.ErrNotFound) {
		return layout{}, ErrNotEdited
	}
	if err != nil {
		return layout{}, err
	}
	u, err := readUndo(back)
	if pinset.OtherVersion(err) {
		return layout{}, fmt.Errorf("%s: %w", UndoName, err)
	}
	if err != nil {
		return layout{}, fmt.Errorf("%w: %s: %w", iso9660.ErrCorrupt, UndoName, err)
	}
	if u.Size < 0 || u.Size > i.Size() {
		return layout{}, fmt.Errorf("%w: %s: the base had %d bytes", iso9660.ErrCorrupt, UndoName, u.Size)
	}
	l := layout{size: u.Size}
	for _, p := range u.Patches {
		if p.Offset < 0 || p.Offset+int64(len(p.Content)) > u.Size {
			return layout{}, fmt.Errorf("%w: %s: a change at %d of %d bytes", iso9660.ErrCorrupt, UndoName, p.Offset, u.Size)
		}
		l.patches = append(l.patches, patch{p.Offset, p.Content})
	}
	slices.Reverse(l.patches) // the first of two that overlap has the original content
	return l, nil
}

// Base reads the base of an edited image.
func (i *Image) Base() (io.Reader, int64, error) {
	l, err := i.pristine()
	return io.NewSectionReader(overlay{i, l.patches}, 0, l.size), l.size, err
}

// overlay reads an image with patches applied in order.
type overlay struct {
	io.ReaderAt
	patches []patch
}

func (o overlay) ReadAt(b []byte, at int64) (int, error) {
	n, err := o.ReaderAt.ReadAt(b, at)
	for _, p := range o.patches {
		from, to := max(p.offset, at), min(p.offset+int64(len(p.content)), at+int64(n))
		if from < to {
			copy(b[from-at:to-at], p.content[from-p.offset:])
		}
	}
	return n, err
}

func readUndo(f iso9660.File) (u undo, err error) {
	z, err := gzip.NewReader(f.Reader())
	if err != nil {
		return u, err
	}
	text, err := io.ReadAll(io.LimitReader(z, maxArchive))
	if err != nil {
		return u, err
	}
	if !bytes.Contains(text, []byte(`"version"`)) { // the first pinbox wrote none
		return u, pinset.CheckVersion(0, undoVersion)
	}
	return u, pinset.Decode(bytes.NewReader(text), undoVersion, &u)
}
