package codec_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/pinbox/pinbox/storage/codec"
)

const blockSize = 128 << 10

// corpus is what layers hold: what `make bench` keeps, or else programs and texts of
// this machine.
func corpus(b *testing.B) []byte {
	b.Helper()
	dir := os.Getenv("PINBOX_BENCH_DIR")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "pinbox-bench")
	}
	files, err := filepath.Glob(filepath.Join(dir, "layer-*.tar"))
	if err != nil {
		b.Fatal(err)
	}
	for _, pattern := range []string{"/usr/bin/*", "/usr/share/perl/*/*.p[lm]"} {
		if len(files) > 0 {
			break
		}
		if files, err = filepath.Glob(pattern); err != nil {
			b.Fatal(err)
		}
	}
	var all []byte
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			continue
		}
		part, err := io.ReadAll(io.LimitReader(f, 8<<20))
		f.Close()
		if err != nil {
			continue // a folder
		}
		all = append(all, part...)
	}
	if len(all) == 0 {
		b.Skip("no corpus: `make bench` makes one")
	}
	return all[:min(len(all), 128<<20)]
}

func BenchmarkGzipReader(b *testing.B) {
	raw := corpus(b)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(raw); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	benchmarkReader(b, codec.NewGzipReader, packed.Bytes(), len(raw))
}

func BenchmarkZstdReader(b *testing.B) {
	raw := corpus(b)
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := w.Write(raw); err != nil {
		b.Fatal(err)
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	benchmarkReader(b, newZstdReader, packed.Bytes(), len(raw))
}

func benchmarkReader(b *testing.B, open func(io.Reader) (io.ReadCloser, error), packed []byte, size int) {
	b.SetBytes(int64(size))
	b.ReportAllocs()
	chunk := make([]byte, 256<<10)
	for b.Loop() {
		z, err := open(bytes.NewReader(packed))
		if err != nil {
			b.Fatal(err)
		}
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{z}, chunk)
		if err != nil || n != int64(size) {
			b.Fatal(n, err)
		}
		if err := z.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkZstdBlock(b *testing.B) { benchmarkBlock(b, codec.NewZstdBlock, zstdLevels) }
func BenchmarkZlibBlock(b *testing.B) { benchmarkBlock(b, codec.NewZlibBlock, zlibLevels) }

func benchmarkBlock(b *testing.B, open func(level int) (codec.Block, error), levels []int) {
	raw := corpus(b)
	for _, level := range levels {
		b.Run(fmt.Sprint(level), func(b *testing.B) { benchmarkLevel(b, open, level, raw) })
	}
}

// benchmarkLevel reports the speed, and the size in percent of the input.
func benchmarkLevel(b *testing.B, open func(level int) (codec.Block, error), level int, raw []byte) {
	block, err := open(level)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	dst, total := make([]byte, 0, blockSize+512), 0
	for b.Loop() {
		total = 0
		for at := 0; at < len(raw); at += blockSize {
			part, smaller := raw[at:min(at+blockSize, len(raw))], false
			if dst, smaller = block.Compress(dst, part); smaller {
				total += len(dst)
			} else {
				total += len(part)
			}
		}
	}
	b.ReportMetric(100*float64(total)/float64(len(raw)), "size%")
}
