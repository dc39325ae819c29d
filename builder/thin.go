package builder

import (
	"bytes"
	"context"
	"path/filepath"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/storage/pinset"
)

// openBases opens the stores of all bases of a thin delta.
func (o Options) openBases(ctx context.Context) (all []*base.Contents, err error) {
	for _, name := range o.From {
		c, err := base.OpenContents(ctx, name, filepath.Dir(filepath.Clean(o.Out)))
		if err != nil {
			closeBases(all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func closeBases(all []*base.Contents) {
	for _, c := range all {
		_ = c.Close() // they were only read
	}
}

// thin says how to make a thin delta. What is known of it at the end goes into delta.json, in the store and in the
// folder.
func (w storeWriter) thin() format.Thin {
	t := format.Thin{Sources: w.common.Layers(), Describe: func(about pinset.Thin) ([]byte, error) {
		w.common.Delta.Thin = &about
		var text bytes.Buffer
		err := w.common.Delta.Encode(&text)
		w.texts[artifact.DeltaFile] = artifact.Text{Content: text.Bytes(), Perm: 0o644}
		return text.Bytes(), err
	}}
	for _, b := range w.bases {
		for _, s := range b.Stores {
			t.Bases = append(t.Bases, base.Thin(s))
		}
	}
	return t
}
