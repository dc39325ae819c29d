package thin_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

// words is a layer with a file of two blocks and an end of 38 kB, which can be compressed and stays.
func words(t *testing.T, n int) thinned.Chain {
	t.Helper()
	return thinned.Chain{stream(t, sample.File("words", strings.Repeat("some words ", 300_000/11)),
		sample.File("version", fmt.Sprint(n)))}
}

// wordsBases returns the base of words by two encoders, and the maker of a delta over one.
func wordsBases(t *testing.T) (base, other []byte, m thin.Maker) {
	t.Helper()
	base = store(t, nil, words(t, 1))
	other, err := thinned.StoreOfAnotherEncoder(nil, words(t, 1))
	if err != nil {
		t.Fatal(err)
	}
	return base, other, thin.Maker{
		Store: thinned.Named("delta", store(t, nil, words(t, 2))), Bases: []thin.Store{thinned.Named("base", base)},
		Sources: words(t, 1).IDs(), Workers: 1,
	}
}

// Blocks of a base are taken as they are only if all bases have those of the store.
func TestBlocksOfABase(t *testing.T) {
	base, other, m := wordsBases(t)
	for _, tc := range []struct {
		name  string
		bases [][]byte
		want  bool
	}{
		{"one base", [][]byte{base}, true},
		{"another encoder", [][]byte{other}, false},
		{"one of two bases by another encoder", [][]byte{base, other}, false},
		{"the first of two bases by another encoder", [][]byte{other, base}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m.Bases = nil
			for _, b := range tc.bases {
				m.Bases = append(m.Bases, thinned.Named("base", b))
			}
			_, made := makeThin(t, m)
			var got bool
			if _, err := thin.Change(made.Index, func(tables *thin.Tables) { got = *tables.Packed(0) }); err != nil {
				t.Fatal(err)
			}
			if got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

// Here the index says of blocks which another encoder has made that they are those of the store: the pack has them.
func TestPackHasBlocksOfTheBase(t *testing.T) {
	_, other, m := wordsBases(t)
	var data thinned.Data
	made, err := m.Make(t.Context(), &data)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[bool]int{}
	for _, packed := range []bool{false, true} {
		index, err := thin.Change(made.Index, func(tables *thin.Tables) { *tables.Packed(0) = packed })
		if err != nil {
			t.Fatal(err)
		}
		delta, err := thinned.Wrap(index, data.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		r, err := thin.Open(thinned.Named("delta", delta), thin.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		sizes[packed] = packSize(t, r, thinned.Named("base", other))
	}
	if sizes[false] > 10_000 || sizes[true] < 290_000 {
		t.Errorf("got packs of %d bytes, and of %d with blocks of the base, which are not compressed", sizes[false], sizes[true])
	}
}

// packSize packs the first layer, and returns the size of the pack.
func packSize(t *testing.T, r *thin.Reader, base thin.Store) int {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	l := r.Layers()[0]
	blob := compose.Blob{DiffID: l.DiffID, Open: func(ctx context.Context) (io.ReadCloser, error) {
		return r.Layer(ctx, l.DiffID, []thin.Store{base}, compressor.Cache())
	}}
	var pack bytes.Buffer
	if err := compose.PackLayer(t.Context(), compressor, blob, &pack, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	return pack.Len()
}
