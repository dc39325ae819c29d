package zstd_test

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	kzstd "github.com/klauspost/compress/zstd"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/zstd"
)

// contents have what each part of the format is for.
func contents() map[string][]byte {
	random := rand.New(rand.NewPCG(1, 2))
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	text := func(n int) (b []byte) {
		words := bytes.Fields([]byte("layer blob image store pin digest mount squashfs of and the whiteout"))
		for len(b) < n {
			b = append(append(b, words[random.IntN(len(words))]...), ' ')
		}
		return b[:n]
	}
	// After noise, matches of 3 bytes: as many sequences as a block can have.
	many := noise(2 << 10)
	for len(many) < 256<<10 {
		at := random.IntN(2 << 10)
		many = append(many, many[at:at+3]...)
	}
	// Matches of all lengths at all distances, between all numbers of literals.
	var mixed []byte
	for distance := 1; distance < 1<<18; distance *= 2 {
		mixed = append(mixed, noise(max(0, distance-len(mixed)))...)
		for length := 1; length < 1000; length += 1 + length/7 {
			for range length {
				mixed = append(mixed, mixed[len(mixed)-distance])
			}
			mixed = append(mixed, noise(random.IntN(1+length))...)
		}
	}
	var records []byte
	for i := range uint64(8000) {
		records = binary.LittleEndian.AppendUint64(records, i*i%1000)
		records = binary.LittleEndian.AppendUint64(records, i)
	}
	return map[string][]byte{
		"empty":         nil,
		"a byte":        {7},
		"three bytes":   []byte("abc"),
		"repeated once": []byte("abcabcabcabcabc"),
		"zeros":         make([]byte, 300<<10),
		"zeros, a byte": append(make([]byte, 128<<10), 1),
		"noise":         noise(200 << 10),
		"few literals":  append(noise(20), make([]byte, 1000)...),
		"text":          text(128 << 10),
		"long text":     text(1 << 20),
		"many":          many,
		"mixed":         mixed,
		"records":       records,
		"two bytes":     bytes.Map(func(r rune) rune { return 'a' + r&1 }, bytes.Repeat([]byte("0110100110010110"), 999)),
		"noise, twice":  bytes.Repeat(noise(100<<10), 2),
	}
}

// encoders are the two kinds of encoders, and the levels of libzstd that they are like.
var encoders = map[string]struct {
	open  func() *zstd.Encoder
	level string
}{
	"default": {zstd.NewDefault, "-3"},
	"best":    {zstd.NewBest, "-15"},
}

// A frame is what klauspost/compress and libzstd decompress to the content, and an encoder that was used compresses as
// a new one does.
func TestEncoder(t *testing.T) {
	for name, e := range encoders {
		t.Run(name, func(t *testing.T) { testEncoder(t, e.open) })
	}
}

func testEncoder(t *testing.T, open func() *zstd.Encoder) {
	t.Helper()
	decoder, err := kzstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	used := open()
	var frames, all []byte
	for name, content := range contents() {
		for _, n := range []int{len(content), len(content) * 2 / 3, min(len(content), 255), min(len(content), 300)} {
			frame := used.Append([]byte("before"), content[:n])[len("before"):]
			if again := open().Append(nil, content[:n]); !bytes.Equal(frame, again) {
				t.Errorf("%s, %d bytes: a used encoder makes another frame than a new one", name, n)
			}
			got, err := decoder.DecodeAll(frame, nil)
			if err != nil || !bytes.Equal(got, content[:n]) {
				t.Errorf("%s, %d bytes: got %d bytes, %v from klauspost/compress", name, n, len(got), err)
			}
			frames, all = append(frames, frame...), append(all, content[:n]...)
		}
	}
	file := filepath.Join(t.TempDir(), "frames.zst")
	if err := os.WriteFile(file, frames, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := exec.Command(fixtures.Need(t, "zstd"), "-dc", file).Output(); err != nil || !bytes.Equal(got, all) {
		t.Errorf("got %d bytes, %v from libzstd; want %d", len(got), err, len(all))
	}
}

// A bug was a block whose last table is described less than 4 bytes before its end, which Linux before 5.16 refuses.
func TestShortTable(t *testing.T) {
	var content []byte
	for _, c := range "abcdefghi" {
		content = append(content, bytes.Repeat([]byte{byte(c)}, 4)...)
	}
	content = append(content, "RRRRR"...)
	decoder, err := kzstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	for name, e := range encoders {
		frame := e.open().Append(nil, content)
		if got, err := decoder.DecodeAll(frame, nil); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: got %q, %v of %x", name, got, err, frame)
		}
	}
}

// What does not compress is at most 3 bytes longer for each 128 KiB, and 10 for the frame.
func TestIncompressible(t *testing.T) {
	content := contents()["noise"]
	for name, e := range encoders {
		if frame := e.open().Append(nil, content); len(frame) > len(content)+2*3+10 {
			t.Errorf("%s: got a frame of %d bytes for %d", name, len(frame), len(content))
		}
	}
}

// The default encoder keeps positions up to 1 MiB. What is behind them is compressed less, and right.
func TestContentBeyondItsTables(t *testing.T) {
	content := slices.Concat(contents()["mixed"], contents()["long text"], contents()["mixed"], contents()["long text"])
	decoder, err := kzstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	frame := zstd.NewDefault().Append(nil, content)
	if got, err := decoder.DecodeAll(frame, nil); err != nil || !bytes.Equal(got, content) {
		t.Errorf("got %d bytes, %v, want the %d of the content", len(got), err, len(content))
	}
}

// Programs and texts take at most 1.02 times the bytes that libzstd makes of them, in blocks of 128 KiB and of 32.
func TestAsSmallAsLibzstd(t *testing.T) {
	fixtures.Need(t, "zstd", "openssl") // whose programs are the content
	files, err := filepath.Glob("/usr/share/perl/*/*.p[lm]")
	if err != nil {
		t.Fatal(err)
	}
	var all []byte
	for _, name := range append(files, "/usr/bin/openssl", "/usr/bin/perl", "/bin/bash") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b...)
	}
	for name, e := range encoders {
		for _, size := range []int{128 << 10, 32 << 10} {
			got, want := sizeOfFrames(e.open(), all, size), sizeOfLibzstd(t, e.level, all, size)
			t.Logf("%s, blocks of %d bytes: %d bytes, and %d with libzstd", name, size, got, want)
			if float64(got) > 1.02*float64(want) {
				t.Errorf("%s, blocks of %d bytes: got %d bytes, want at most 1.02 times the %d of libzstd", name, size, got, want)
			}
		}
	}
}

func sizeOfFrames(e *zstd.Encoder, all []byte, size int) (sum int) {
	for block := range slices.Chunk(all, size) {
		sum += len(e.Append(nil, block))
	}
	return sum
}

func sizeOfLibzstd(t *testing.T, level string, all []byte, size int) (sum int) {
	t.Helper()
	dir := t.TempDir()
	args := []string{"-q", level, "--no-check"}
	for block := range slices.Chunk(all, size) {
		file := filepath.Join(dir, strconv.Itoa(len(args)))
		if err := os.WriteFile(file, block, 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, file)
	}
	if out, err := exec.Command(fixtures.Need(t, "zstd"), args...).CombinedOutput(); err != nil {
		t.Fatalf("zstd: %v: %s", err, out)
	}
	for _, file := range args[3:] {
		info, err := os.Stat(file + ".zst")
		if err != nil {
			t.Fatal(err)
		}
		sum += int(info.Size())
	}
	return sum
}

func FuzzDefault(f *testing.F) { fuzz(f, zstd.NewDefault()) }
func FuzzBest(f *testing.F)    { fuzz(f, zstd.NewBest()) }

func fuzz(f *testing.F, e *zstd.Encoder) {
	f.Helper()
	for _, content := range contents() {
		f.Add(content[:min(len(content), 2000)])
	}
	decoder, err := kzstd.NewReader(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		got, err := decoder.DecodeAll(e.Append(nil, content), nil)
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%x: got %x, %v", content, got, err)
		}
	})
}
