package deflate_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/pinbox/pinbox/storage/deflate"
)

// packed compresses with compress/flate.
func packed(t testing.TB, content []byte, level int) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// unpack decompresses a stream, and returns what follows it.
func unpack(t testing.TB, r io.Reader) (got, rest []byte, err error) {
	t.Helper()
	in := bufio.NewReaderSize(r, deflate.MinBuffer)
	var d deflate.Reader
	if err := d.Reset(in); err != nil {
		t.Fatal(err)
	}
	if got, err = io.ReadAll(&d); err != nil {
		return got, nil, err
	}
	rest, err = io.ReadAll(in)
	return got, rest, err
}

var levels = []int{
	flate.NoCompression, flate.HuffmanOnly, flate.BestSpeed, flate.DefaultCompression, flate.BestCompression,
}

// contents have what each part of the format is for.
func contents() map[string][]byte {
	random := rand.New(rand.NewChaCha8([32]byte{}))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	// Each byte value occurs as often as the two before it together: the rarest have codes of 15 bits.
	var skewed []byte
	for i, count, next := 0, 1, 1; i < 24; i, count, next = i+1, next, count+next {
		skewed = append(skewed, bytes.Repeat([]byte{byte(7 * i)}, count)...)
	}
	random.Shuffle(len(skewed), func(i, j int) { skewed[i], skewed[j] = skewed[j], skewed[i] })
	// Matches of all lengths, at all powers of two.
	matches := noise(40 << 10)
	for distance := 1; distance <= 32<<10; distance *= 2 {
		for length := 3; length <= 300; length += 1 + length/8 {
			for range length {
				matches = append(matches, matches[len(matches)-distance])
			}
			matches = append(matches, noise(random.IntN(20))...)
		}
	}
	return map[string][]byte{
		"empty":   nil,
		"a byte":  {0},
		"zeros":   make([]byte, 300<<10),
		"noise":   noise(200 << 10),
		"skewed":  skewed,
		"matches": matches,
	}
}

func TestReader(t *testing.T) {
	after := []byte("what follows")
	for name, content := range contents() {
		for _, level := range levels {
			stream := append(packed(t, content, level), after...)
			for source, r := range map[string]io.Reader{
				"at once":       bytes.NewReader(stream),
				"halves":        iotest.HalfReader(bytes.NewReader(stream)),
				"bytes":         iotest.OneByteReader(bytes.NewReader(stream)),
				"data with EOF": iotest.DataErrReader(bytes.NewReader(stream)),
			} {
				got, rest, err := unpack(t, r)
				if err != nil || !bytes.Equal(got, content) {
					t.Errorf("%s, level %d, %s: got %d bytes, %v; want %d with the content", name, level, source, len(got), err,
						len(content))
				}
				if !bytes.Equal(rest, after) {
					t.Errorf("%s, level %d, %s: got %q after the stream, want %q", name, level, source, rest, after)
				}
			}
		}
	}
}

var errSource = errors.New("the source failed")

// A stream that ends early, or whose source fails, is an error, and what is decompressed before it is content.
func TestTruncatedStream(t *testing.T) {
	for name, content := range contents() {
		content = content[:min(len(content), 1200)]
		for _, level := range levels {
			stream := packed(t, content, level)
			for n := range stream {
				got, _, err := unpack(t, bytes.NewReader(stream[:n]))
				if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(content, got) {
					t.Errorf("%s, level %d, %d of %d bytes: got %d bytes, %v; want the first of the content, and %v", name,
						level, n, len(stream), len(got), err, io.ErrUnexpectedEOF)
				}
				_, _, err = unpack(t, io.MultiReader(bytes.NewReader(stream[:n]), iotest.ErrReader(errSource)))
				if !errors.Is(err, errSource) {
					t.Errorf("%s, level %d, %d of %d bytes, and an error: got %v, want %v", name, level, n, len(stream), err,
						errSource)
				}
			}
		}
	}
}

// A changed bit has the same effect as on compress/flate.
func TestDamagedStream(t *testing.T) {
	for _, content := range contents() {
		content = content[:min(len(content), 400)]
		for _, level := range levels {
			stream := packed(t, content, level)
			for i := range 8 * len(stream) {
				damaged := bytes.Clone(stream)
				damaged[i/8] ^= 1 << (i % 8)
				compare(t, damaged)
			}
		}
	}
}

// compare compares with compress/flate: what is decompressed before an error may differ in length, and compress/flate
// reads as many bits as the end of a block has before it looks at those of another symbol.
func compare(t *testing.T, stream []byte) {
	t.Helper()
	r := bytes.NewReader(stream)
	want, wantErr := io.ReadAll(flate.NewReader(r))
	got, rest, err := unpack(t, bytes.NewReader(stream))
	switch {
	case (err == nil) != (wantErr == nil), errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(wantErr, io.ErrUnexpectedEOF):
		t.Fatalf("%x: got %v, want %v, as from compress/flate", stream, err, wantErr)
	case err == nil && (!bytes.Equal(got, want) || len(rest) != r.Len()):
		t.Fatalf("%x: got %d bytes, and %d after the stream; want %d and %d, as from compress/flate", stream, len(got),
			len(rest), len(want), r.Len())
	case err != nil && !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got):
		t.Fatalf("%x: got other bytes before the error than compress/flate", stream)
	}
}

func TestSmallBuffer(t *testing.T) {
	var d deflate.Reader
	if err := d.Reset(bufio.NewReaderSize(bytes.NewReader(nil), 16)); err == nil {
		t.Error("got no error, want one that says how large the buffer must be")
	}
}

func FuzzReader(f *testing.F) {
	for _, content := range contents() {
		for _, level := range levels {
			f.Add(packed(f, content[:min(len(content), 1000)], level))
		}
	}
	f.Fuzz(compare)
}
