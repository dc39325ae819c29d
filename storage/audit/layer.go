package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/opencontainers/go-digest"

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

// writeLayer writes the tar stream of a layer.
func writeLayer(ctx context.Context, files fs.FS, id string, out io.Writer) error {
	split, err := OpenSplit(files, id)
	if err != nil {
		return err
	}
	defer split.Close()
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		line, err := split.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if line.Name == "" {
			_, err = out.Write(line.Payload)
		} else {
			err = writeFile(ctx, files, id, line, out)
		}
		if err != nil {
			return err
		}
	}
}

// writeFile writes the content of a file of a layer.
func writeFile(ctx context.Context, files fs.FS, id string, line SplitLine, out io.Writer) error {
	f, err := line.Open(files, id)
	if err != nil {
		return err
	}
	defer f.Close()
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
