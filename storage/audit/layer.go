package audit

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/codec"
	"github.com/pinbox/pinbox/storage/layout"
)

// Layers reads the contents of all layers of a store, as Layer does. read is called after each.
func Layers(ctx context.Context, files fs.FS, read func(layout.Layer)) error {
	return layout.Open(files).Layers(func(l layout.Layer) error {
		err := Layer(ctx, files, l)
		if err == nil {
			read(l)
		}
		return err
	})
}

// Layer makes the tar stream of a layer again, from its files and its tar-split file, and compares its
// digest with the DiffID of the record. files is the graph root, whose implementation must not follow
// symbolic links. It holds one line of the tar-split file at a time.
func Layer(ctx context.Context, files fs.FS, l layout.Layer) error {
	return WriteLayer(ctx, files, l, io.Discard)
}

// WriteLayer writes the tar stream that Layer makes. Only without an error is it the one of the DiffID.
func WriteLayer(ctx context.Context, files fs.FS, l layout.Layer, out io.Writer) error {
	if err := CheckLayer(l); err != nil {
		return err
	}
	sum := l.UncompressedDigest.Algorithm().Hash()
	if err := writeLayer(ctx, files, l.ID, io.MultiWriter(sum, out)); err != nil {
		return fmt.Errorf("layer %s: %w", l.ID, err)
	}
	if got := digest.NewDigest(l.UncompressedDigest.Algorithm(), sum); got != l.UncompressedDigest {
		return invalid("layer %s: its content is %s, its record says %s", l.ID, got, l.UncompressedDigest)
	}
	return nil
}

// maxSplitLine is the limit for a line of a tar-split file, in bytes. The largest one is a segment of
// 1 MiB in base64 (storage/compose).
const maxSplitLine = 4 << 20

// splitLine is a line of a tar-split file: the type Entry of vbatts/tar-split, tar/storage.
type splitLine struct {
	Type    int    `json:"type"` // fileType or segmentType
	Name    string `json:"name"`
	NameRaw []byte `json:"name_raw"` // instead of a name that is not UTF-8
	Size    int64  `json:"size"`
	Payload []byte `json:"payload"`
}

const (
	fileType    = 1
	segmentType = 2
)

// writeLayer writes the tar stream of a layer.
func writeLayer(ctx context.Context, files fs.FS, id string, out io.Writer) error {
	name := layout.TarSplitFile(id)
	split, err := files.Open(name)
	if err != nil {
		return err
	}
	defer split.Close()
	zip, err := codec.NewGzipReader(split)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer zip.Close()
	lines := bufio.NewScanner(zip)
	lines.Buffer(nil, maxSplitLine)
	for lines.Scan() {
		if err := ctx.Err(); err != nil {
			return err
		}
		var line splitLine
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return invalid("%s: %w", name, err)
		}
		switch line.Type {
		case segmentType:
			_, err = out.Write(line.Payload)
		case fileType:
			err = line.writeFile(ctx, files, path.Join(layout.OverlayDir, id, "diff"), out)
		default:
			err = invalid("%s: a line of type %d", name, line.Type)
		}
		if err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// writeFile writes the content of a file in the folder diff.
func (l splitLine) writeFile(ctx context.Context, files fs.FS, diff string, out io.Writer) error {
	if l.Size == 0 {
		return nil
	}
	name := l.Name
	if l.NameRaw != nil {
		name = string(l.NameRaw)
	}
	name = path.Join(diff, path.Join("/", name)) // as in a container: it cannot lead out of the folder
	f, err := files.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	if !fi.Mode().IsRegular() || fi.Size() != l.Size {
		return invalid("%q has mode %v and %d bytes, want a file of %d", name, fi.Mode(), fi.Size(), l.Size)
	}
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if _, err := io.CopyN(out, f, 1<<20); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}
