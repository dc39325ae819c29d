package codec_test

import (
	"bytes"
	"hash"
	"hash/crc64"
	"testing"

	"github.com/pinbox/pinbox/storage/codec"
)

func TestCRC64(t *testing.T) {
	data := noise(3000)
	want, got := crc64.New(crc64.MakeTable(crc64.ISO)), codec.NewCRC64()
	for n := range 1500 {
		part := data[n%11:][:n]
		if n%7 == 0 { // else the sum continues
			want.Reset()
			got.Reset()
		}
		for _, h := range []hash.Hash64{want, got} {
			if m, err := h.Write(part); m != n || err != nil {
				t.Fatalf("got %d bytes, %v, want %d", m, err, n)
			}
		}
		if want.Sum64() != got.Sum64() || !bytes.Equal(want.Sum([]byte("a")), got.Sum([]byte("a"))) {
			t.Fatalf("%d bytes: got %x, want %x", n, got.Sum64(), want.Sum64())
		}
	}
}

func BenchmarkCRC64(b *testing.B) {
	data := noise(blockSize)
	for name, h := range map[string]hash.Hash64{
		"codec": codec.NewCRC64(), "stdlib": crc64.New(crc64.MakeTable(crc64.ISO)),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				h.Write(data)
			}
		})
	}
}
