package compose_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/squashfs"
)

// words is a layer of files of words, of which the seed decides; about size bytes.
func words(t *testing.T, seed uint64, size int) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	var stream bytes.Buffer
	w := tar.NewWriter(&stream)
	for n := 0; stream.Len() < size; n++ {
		var b strings.Builder
		for range r.IntN(5000) {
			fmt.Fprintf(&b, "word%d ", r.IntN(300))
		}
		hdr := &tar.Header{Name: fmt.Sprintf("usr/share/%d/file-%d", n/20, n), Mode: 0o644, Size: int64(b.Len())}
		if err := w.WriteHeader(hdr); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, b.String()); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return stream.Bytes()
}

// A pack has the same bytes whatever the buffers and compressors that it takes over were used for: other layers, one
// that is damaged, and several at a time.
func TestPacksDoNotDependOnEarlierOnes(t *testing.T) {
	compressor := newCompressor(t)
	var layers, want [][]byte
	for seed := range 8 {
		layers = append(layers, words(t, uint64(seed), seed*seed*8_000+1))
		first, err := packLayer(t, compressor, layers[seed])
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, first)
	}
	half := layers[7][:len(layers[7])/2]
	for round := range 2 {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			if _, err := packLayer(t, compressor, half); err == nil {
				t.Error("got a pack of half a layer, want an error")
			}
			for n := range layers {
				t.Run(fmt.Sprint(n), func(t *testing.T) {
					t.Parallel()
					if got, err := packLayer(t, compressor, layers[n]); err != nil || !bytes.Equal(got, want[n]) {
						t.Errorf("got %d bytes, %v, want the %d of the first time", len(got), err, len(want[n]))
					}
				})
			}
		})
	}
}

// A release has hundreds of layers of a few files each. What is made anew for each of them is garbage.
func TestGarbageOfASmallLayer(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // it empties the pools
	compressor, stream := newCompressor(t), words(t, 1, 20_000)
	blob, tmp := blobOf(stream, gzipped(t, stream)), t.TempDir()
	var each []uint64
	for range 31 {
		var pack bytes.Buffer
		pack.Grow(1 << 20)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if err := compose.PackLayer(t.Context(), compressor, blob, &pack, tmp); err != nil {
			t.Fatal(err)
		}
		opened, err := compressor.OpenPack(inMemory{bytes.NewReader(pack.Bytes())}, int64(pack.Len()))
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(opened)
		each = append(each, after.TotalAlloc-before.TotalAlloc)
	}
	if got := slices.Min(each); got > 512<<10 { // the race detector makes pools forget
		t.Errorf("got %d bytes for a layer, want at most 512 KiB; all: %d", got, each)
	}
}

type inMemory struct{ io.ReaderAt }

func (inMemory) Close() error { return nil }

var _ squashfs.File = inMemory{}
