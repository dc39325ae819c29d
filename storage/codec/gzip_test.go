package codec_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	kgzip "github.com/klauspost/compress/gzip"

	"github.com/pinbox/pinbox/storage/codec"
)

// member returns a member of a gzip stream, with a name and an extra field if named.
func member(t testing.TB, content []byte, level int, named bool) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		t.Fatal(err)
	}
	if named {
		w.Name, w.Comment, w.Extra = "layer.tar", "a comment", []byte("XX\x02\x00ab")
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// withHeaderCRC adds a checksum to a header without optional fields.
func withHeaderCRC(member []byte) []byte {
	head := bytes.Clone(member[:10])
	head[3] |= 1 << 1
	head = binary.LittleEndian.AppendUint16(head, uint16(crc32.ChecksumIEEE(head)))
	return append(head, member[10:]...)
}

// text returns content that compresses.
func text(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	words := strings.Fields("layer blob image store pin digest mount squashfs of and the whiteout")
	var b bytes.Buffer
	for b.Len() < n {
		b.WriteString(words[r.IntN(len(words))])
		b.WriteByte(' ')
	}
	return b.Bytes()[:n]
}

// noise returns content that does not compress.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

type opener func(io.Reader) (io.ReadCloser, error)

// readAll decompresses a stream and closes the reader.
func readAll(open opener, r io.Reader) ([]byte, error) {
	z, err := open(r)
	if err != nil {
		return nil, err
	}
	got, err := io.ReadAll(z)
	return got, errors.Join(err, z.Close())
}

func TestGzipReader(t *testing.T) {
	words, random := text(300<<10), noise(100<<10)
	for name, tc := range map[string]struct {
		packed [][]byte
		want   []byte
	}{
		"empty":      {[][]byte{member(t, nil, 6, false)}, nil},
		"stored":     {[][]byte{member(t, words, gzip.NoCompression, false)}, words},
		"fixed":      {[][]byte{member(t, []byte("aaaaab"), 6, false)}, []byte("aaaaab")},
		"dynamic":    {[][]byte{member(t, words, 9, false)}, words},
		"huffman":    {[][]byte{member(t, words, gzip.HuffmanOnly, false)}, words},
		"noise":      {[][]byte{member(t, random, 6, false)}, random},
		"named":      {[][]byte{member(t, words, 1, true)}, words},
		"header CRC": {[][]byte{withHeaderCRC(member(t, words, 1, false))}, words},
		"members": {
			[][]byte{
				member(t, words, 1, true), member(t, nil, 6, false), member(t, random, 6, false), member(t, []byte("x"), 0, true),
				member(t, nil, 0, true),
			},
			bytes.Join([][]byte{words, random, []byte("x")}, nil),
		},
	} {
		t.Run(name, func(t *testing.T) {
			packed := bytes.Join(tc.packed, nil)
			for source, r := range map[string]io.Reader{
				"at once":       bytes.NewReader(packed),
				"bytes":         iotest.OneByteReader(bytes.NewReader(packed)),
				"halves":        iotest.HalfReader(bytes.NewReader(packed)),
				"data with EOF": iotest.DataErrReader(bytes.NewReader(packed)),
				"small buffer":  bufio.NewReaderSize(bytes.NewReader(packed), 16),
			} {
				if got, err := readAll(codec.NewGzipReader, r); err != nil || !bytes.Equal(got, tc.want) {
					t.Errorf("%s: got %d bytes, %v, want %d with the content", source, len(got), err, len(tc.want))
				}
			}
			z, err := codec.NewGzipReader(bytes.NewReader(packed))
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			if got, err := io.ReadAll(iotest.OneByteReader(z)); err != nil || !bytes.Equal(got, tc.want) {
				t.Errorf("byte by byte: got %d bytes, %v, want %d with the content", len(got), err, len(tc.want))
			}
		})
	}
}

// errSource is not the end of a stream, although it wraps io.EOF.
var errSource = fmt.Errorf("source failed: %w", io.EOF)

// A stream that is truncated at any byte, or whose source fails there, is an error. A stream can
// end after a member.
func TestTruncatedGzip(t *testing.T) {
	first, second := member(t, text(700), 6, true), withHeaderCRC(member(t, text(900), 0, false))
	packed := append(bytes.Clone(first), second...)
	for n := range len(packed) {
		want := io.ErrUnexpectedEOF
		switch n {
		case 0:
			want = io.EOF
		case len(first):
			want = nil
		}
		got, err := readAll(codec.NewGzipReader, bytes.NewReader(packed[:n]))
		if !errors.Is(err, want) || err == nil && !bytes.Equal(got, text(700)) {
			t.Errorf("%d of %d bytes: got %d bytes, %v, want %v", n, len(packed), len(got), err, want)
		}
		_, err = readAll(codec.NewGzipReader, io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(errSource)))
		if !errors.Is(err, errSource) {
			t.Errorf("%d of %d bytes and an error: got %v, want %v", n, len(packed), err, errSource)
		}
	}
}

// once returns its error once, and then that the stream has ended.
type once struct{ err error }

func (o *once) Read([]byte) (int, error) {
	err := o.err
	o.err = io.EOF
	return 0, err
}

// An error that a source returns just once was lost behind the last member.
func TestErrorThatIsNotRepeated(t *testing.T) {
	packed := member(t, text(700), 6, false)
	for _, n := range []int{len(packed) - 3, len(packed)} {
		_, err := readAll(codec.NewGzipReader, io.MultiReader(bytes.NewReader(packed[:n]), &once{errSource}))
		if !errors.Is(err, errSource) {
			t.Errorf("%d of %d bytes: got %v, want %v", n, len(packed), err, errSource)
		}
	}
}

// A changed bit is an error, or does not change the content.
func TestDamagedGzip(t *testing.T) {
	want := append(text(300), noise(50)...)
	for _, level := range []int{gzip.NoCompression, gzip.HuffmanOnly, gzip.BestSpeed, gzip.BestCompression} {
		packed := append(member(t, want[:150], level, true), member(t, want[150:], level, false)...)
		for i := range 8 * len(packed) {
			damaged := bytes.Clone(packed)
			damaged[i/8] ^= 1 << (i % 8)
			got, err := readAll(codec.NewGzipReader, bytes.NewReader(damaged))
			if err == nil && !bytes.Equal(got, want) {
				t.Fatalf("level %d, byte %d, bit %d: got other content and no error", level, i/8, i%8)
			}
			compare(t, damaged, got, err)
		}
	}
}

// compare compares a result with the result of compress/gzip. Reserved flags are an error in RFC
// 1952 and klauspost/compress, but not in compress/gzip.
func compare(t *testing.T, packed, got []byte, err error) {
	t.Helper()
	want, wantErr := readAll(func(r io.Reader) (io.ReadCloser, error) {
		return gzip.NewReader(r)
	}, bytes.NewReader(packed))
	if errors.Is(err, codec.ErrHeader) && wantErr == nil {
		_, wantErr = readAll(func(r io.Reader) (io.ReadCloser, error) { return kgzip.NewReader(r) }, bytes.NewReader(packed))
	}
	if (err == nil) != (wantErr == nil) || err == nil && !bytes.Equal(got, want) {
		t.Fatalf("%x: got %d bytes, %v; want %d bytes, %v, as from compress/gzip", packed, len(got), err, len(want), wantErr)
	}
}

func TestInvalidGzip(t *testing.T) {
	good := member(t, text(1000), 6, false)
	for name, tc := range map[string]struct {
		packed []byte
		want   error
	}{
		"not gzip":       {[]byte("this is something else"), codec.ErrHeader},
		"trailing text":  {append(bytes.Clone(good), "garbage at the end"...), codec.ErrHeader},
		"trailing zeros": {append(bytes.Clone(good), make([]byte, 1024)...), codec.ErrHeader},
		"CRC":            {change(good, len(good)-8), codec.ErrChecksum},
		"length":         {change(good, len(good)-1), codec.ErrChecksum},
		"header CRC":     {change(withHeaderCRC(good), 10), codec.ErrHeader},
		"reserved flag":  {change(good, 3), codec.ErrHeader},
	} {
		t.Run(name, func(t *testing.T) {
			in := bufio.NewReader(io.MultiReader(bytes.NewReader(tc.packed), iotest.ErrReader(errSource)))
			if _, err := readAll(codec.NewGzipReader, in); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if _, err := io.Copy(io.Discard, in); !errors.Is(err, errSource) {
				t.Errorf("rest of the source: got %v, want %v", err, errSource)
			}
		})
	}
}

// change returns a copy of b with another byte at i.
func change(b []byte, i int) []byte {
	b = bytes.Clone(b)
	b[i] ^= 0x80
	return b
}

// Readers do not retain memory: neither one of a stream with a high ratio, nor many that are
// closed.
func TestMemoryOfGzipReaders(t *testing.T) {
	const size, limit = 512 << 20, 48 << 20
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := io.Copy(w, io.LimitReader(zeros{}, size))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	before := resident(t)
	z, err := codec.NewGzipReader(&packed)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.Copy(io.Discard, z); n != size || err != nil {
		t.Errorf("got %d bytes, %v, want %d", n, err, size)
	}
	if err := z.Close(); err != nil {
		t.Error(err)
	}
	if grown := resident(t) - before; grown > limit {
		t.Errorf("after zeros: got %d more bytes of memory, want at most %d", grown, limit)
	}
	small := member(t, text(100), 6, false)
	for range 2000 {
		if _, err := readAll(codec.NewGzipReader, bytes.NewReader(small)); err != nil {
			t.Fatal(err)
		}
	}
	if grown := resident(t) - before; grown > limit {
		t.Errorf("after many readers: got %d more bytes of memory, want at most %d", grown, limit)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// resident returns the resident memory of this process in bytes, including memory of C.
func resident(t *testing.T) int {
	t.Helper()
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(statm), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

func TestClosedGzipReader(t *testing.T) {
	z, err := codec.NewGzipReader(bytes.NewReader(member(t, text(1000), 6, false)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), z.Close()); err != nil {
		t.Error(err)
	}
	if n, err := z.Read(make([]byte, 10)); n != 0 || err == nil || errors.Is(err, io.EOF) {
		t.Errorf("read after Close: got %d bytes, %v, want an error other than EOF", n, err)
	}
}

// FuzzGzip compares the reader with compress/gzip: for the bytes as a stream, and as the deflated
// content of a member with a valid trailer.
func FuzzGzip(f *testing.F) {
	for _, level := range []int{gzip.NoCompression, gzip.HuffmanOnly, gzip.BestSpeed, gzip.BestCompression} {
		m := member(f, append(text(500), noise(50)...), level, level > 0)
		f.Add(m)
		f.Add(withHeaderCRC(member(f, text(200), level, false))[12:])
		f.Add(append(bytes.Clone(m), m...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := readAll(limited, bytes.NewReader(data))
		compare(t, data, got, err)

		rest := bytes.NewReader(data)
		content, _ := io.ReadAll(flate.NewReader(rest)) // as much as compress/flate decompresses
		stream := append([]byte("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"), data[:len(data)-rest.Len()]...)
		stream = binary.LittleEndian.AppendUint32(stream, crc32.ChecksumIEEE(content))
		stream = binary.LittleEndian.AppendUint32(stream, uint32(len(content)))
		got, err = readAll(codec.NewGzipReader, bytes.NewReader(stream))
		compare(t, stream, got, err)
	})
}

// limited opens a stream whose source returns few bytes at a time.
func limited(r io.Reader) (io.ReadCloser, error) {
	return codec.NewGzipReader(bufio.NewReaderSize(iotest.HalfReader(r), 4096))
}
