package codec_test

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/codec"
)

func newZstdReader(r io.Reader) (io.ReadCloser, error) {
	return codec.NewZstdReader(r, codec.MaxWindow)
}

// frame returns a frame of zstd.
func frame(t testing.TB, content []byte, opts ...zstd.EOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, opts...)
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// skippable returns a skippable frame, as in zstd:chunked.
func skippable(content []byte) []byte {
	b := binary.LittleEndian.AppendUint32([]byte("\x50\x2a\x4d\x18"), uint32(len(content)))
	return append(b, content...)
}

// window returns a frame of one stored block with a window of 1<<log bytes.
func window(log byte, content string) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (log - 10) << 3}
	head := uint32(len(content))<<3 | 1
	return append(append(b, byte(head), byte(head>>8), byte(head>>16)), content...)
}

// A frame with a larger window than is permitted is an error, also behind another frame.
func TestZstdWindow(t *testing.T) {
	for name, packed := range map[string][]byte{
		"first": window(29, "content"), "second": append(window(20, "content"), window(28, "content")...),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := readAll(newZstdReader, bytes.NewReader(packed)); !errors.Is(err, codec.ErrWindow) {
				t.Errorf("got %v, want %v", err, codec.ErrWindow)
			}
		})
	}
}

func TestZstdReader(t *testing.T) {
	words, random := text(300<<10), noise(100<<10)
	for name, tc := range map[string]struct {
		packed [][]byte
		want   []byte
	}{
		"no frame":    {nil, nil},
		"empty frame": {[][]byte{frame(t, nil, zstd.WithZeroFrames(true))}, nil},
		"words":       {[][]byte{frame(t, words)}, words},
		"noise":       {[][]byte{frame(t, random)}, random},
		"frames": {
			[][]byte{
				skippable(random), frame(t, words, zstd.WithEncoderLevel(zstd.SpeedBestCompression)), skippable(nil),
				skippable([]byte("x")), frame(t, random, zstd.WithEncoderCRC(false)), skippable(words),
			},
			bytes.Join([][]byte{words, random}, nil),
		},
		"--long=27": {[][]byte{window(27, "content")}, []byte("content")},
	} {
		t.Run(name, func(t *testing.T) {
			packed := bytes.Join(tc.packed, nil)
			for source, r := range map[string]io.Reader{
				"at once": bufio.NewReader(bytes.NewReader(packed)),
				"bytes":   iotest.OneByteReader(bytes.NewReader(packed)),
			} {
				if got, err := readAll(newZstdReader, r); err != nil || !bytes.Equal(got, tc.want) {
					t.Errorf("%s: got %d bytes, %v, want %d with the content", source, len(got), err, len(tc.want))
				}
			}
		})
	}
}

func TestInvalidZstd(t *testing.T) {
	first := frame(t, text(3000))
	packed := append(bytes.Clone(first), append(skippable(noise(10)), frame(t, noise(50))...)...)
	for n := 1; n < len(packed); n++ {
		_, err := readAll(newZstdReader, bytes.NewReader(packed[:n]))
		if complete := n == len(first) || n == len(first)+18; complete != (err == nil) {
			t.Errorf("%d of %d bytes: got %v, want an error: %v", n, len(packed), err, !complete)
		}
		_, err = readAll(newZstdReader, io.MultiReader(bytes.NewReader(packed[:n]), iotest.ErrReader(errSource)))
		inSkippable := n >= len(first)+8 && n < len(first)+18
		if !errors.Is(err, errSource) && (!inSkippable || err == nil) {
			t.Errorf("%d of %d bytes and an error: got %v, want %v", n, len(packed), err, errSource)
		}
	}
	for i := range first {
		if got, err := readAll(newZstdReader, bytes.NewReader(change(first, i))); err == nil &&
			!bytes.Equal(got, text(3000)) {
			t.Errorf("byte %d changed: got other content and no error", i)
		}
	}
	for name, packed := range map[string][]byte{
		"trailing text": append(bytes.Clone(first), "garbage at the end"...),
		"window":        window(30, "content"),
	} {
		if _, err := readAll(newZstdReader, bytes.NewReader(packed)); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
}

// blocks returns blocks of all sizes in a squashfs, of contents that compress and that do not.
func blocks() (all [][]byte) {
	r := rand.New(rand.NewPCG(3, 4))
	words, random := text(1<<20), noise(1<<20)
	for _, size := range []int{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10,
		64 << 10, 128 << 10, 1 << 20} {
		mixed := bytes.Clone(words[:size])
		copy(mixed[size/2:], random)
		all = append(all, words[:size], random[:size], mixed, make([]byte, size), words[r.IntN(len(words)-size+1):][:size])
	}
	return append(all, words[:8191], words[:100_001])
}

// Levels of the stores.
var (
	zstdLevels = []int{1, 3, 15}
	zlibLevels = []int{1, 6} // 9 takes long
)

// A higher level makes smaller blocks: 2 %, and 5 % on top of that.
func TestHigherLevelIsSmaller(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	var before float64
	for i, level := range zstdLevels {
		block, err := codec.NewZstdBlock(level)
		if err != nil {
			t.Fatal(err)
		}
		var size float64
		for raw := range slices.Chunk(content, 128<<10) {
			out, _ := block.Compress(nil, raw)
			size += float64(len(out))
		}
		if most := []float64{1, 0.98, 0.95}[i]; i > 0 && size > most*before {
			t.Errorf("level %d: got %.3f of the bytes of level %d, want at most %.2f", level, size/before, zstdLevels[i-1], most)
		}
		before = size
	}
}

// A compressed block has the form that the kernel's decoder needs, and zstd(1) can read it.
func TestZstdBlock(t *testing.T) {
	for _, level := range zstdLevels {
		t.Run(fmt.Sprint(level), func(t *testing.T) { testZstdBlock(t, level) })
	}
}

func testZstdBlock(t *testing.T, level int) {
	t.Helper()
	dec, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dec.Close()
	block, err := codec.NewZstdBlock(level)
	if err != nil {
		t.Fatal(err)
	}
	var dst, frames, want []byte
	for _, raw := range blocks() {
		var smaller bool
		if dst, smaller = block.Compress(dst, raw); !smaller {
			continue
		}
		if len(dst) >= len(raw) {
			t.Errorf("got %d bytes, want less than %d", len(dst), len(raw))
		}
		if got, err := dec.DecodeAll(dst, nil); err != nil || !bytes.Equal(got, raw) {
			t.Errorf("%d bytes: got %d bytes back, %v, want the same content", len(raw), len(got), err)
		}
		var h zstd.Header
		if err := h.Decode(dst); err != nil || !h.HasFCS || h.FrameContentSize != uint64(len(raw)) || h.HasCheckSum ||
			h.DictionaryID != 0 || h.WindowSize > uint64(max(len(raw), 1024)) {
			t.Errorf("%d bytes: got the header %+v, %v, want one with the size and without checksum and dictionary", len(raw), h, err)
		}
		frames, want = append(frames, dst...), append(want, raw...)
	}
	if len(want) < 4<<20 {
		t.Errorf("got %d bytes that compress, want at least 4 MiB", len(want))
	}
	cmd := exec.Command(fixtures.Need(t, "zstd"), "-dc")
	cmd.Stdin = bytes.NewReader(frames)
	if got, err := cmd.Output(); err != nil || !bytes.Equal(got, want) {
		t.Errorf("zstd -d: got %d bytes, %v, want %d with the content", len(got), err, len(want))
	}
}

func TestZlibBlock(t *testing.T) {
	for _, level := range zlibLevels {
		t.Run(fmt.Sprint(level), func(t *testing.T) {
			block, err := codec.NewZlibBlock(level)
			if err != nil {
				t.Fatal(err)
			}
			var dst []byte
			for _, raw := range blocks() {
				var smaller bool
				if dst, smaller = block.Compress(dst, raw); !smaller {
					continue
				}
				if got, err := readAll(zlib.NewReader, bytes.NewReader(dst)); err != nil || !bytes.Equal(got, raw) ||
					len(dst) >= len(raw) {
					t.Errorf("%d bytes: got %d bytes back, %v, want the same content", len(raw), len(got), err)
				}
			}
		})
	}
}

// The compressed bytes depend only on the block: not on earlier blocks, on the capacity of the
// buffer or on other goroutines.
func TestBlocksAreDeterministic(t *testing.T) {
	tests := map[string]func() (codec.Block, error){}
	for _, level := range zstdLevels {
		tests[fmt.Sprint("zstd ", level)] = func() (codec.Block, error) { return codec.NewZstdBlock(level) }
	}
	for _, level := range zlibLevels {
		tests[fmt.Sprint("zlib ", level)] = func() (codec.Block, error) { return codec.NewZlibBlock(level) }
	}
	for name, open := range tests {
		t.Run(name, func(t *testing.T) {
			all := slices.DeleteFunc(blocks(), func(b []byte) bool { return len(b) > 64<<10 })
			all = append(all, append(text(1<<19), noise(1<<19)...)) // the largest of a store
			pack := func(order []int, capacity int) [][]byte {
				block, err := open()
				if err != nil {
					t.Error(err)
					return nil
				}
				packed := make([][]byte, len(all))
				for _, i := range order {
					out, smaller := block.Compress(make([]byte, capacity%1000, capacity), all[i])
					if smaller {
						packed[i] = out
					}
				}
				return packed
			}
			order := make([]int, len(all))
			for i := range order {
				order[i] = i
			}
			want := pack(order, 2<<20)
			var wg sync.WaitGroup
			for _, n := range []int{0, 7} { // of 50 kB: where the output is put is less than a block, or more
				shuffled := slices.Clone(order)
				rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(len(shuffled), func(i, j int) {
					shuffled[i], shuffled[j] = shuffled[j], shuffled[i]
				})
				wg.Go(func() {
					for i, got := range pack(shuffled, n*50_000) {
						if !bytes.Equal(got, want[i]) {
							t.Errorf("block %d of %d bytes: got other bytes", i, len(all[i]))
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestStored(t *testing.T) {
	out, smaller := codec.Stored{}.Compress(make([]byte, 3, 10), text(100))
	if smaller || len(out) != 0 || cap(out) != 10 {
		t.Errorf("got %d bytes, smaller %v, want none, false", len(out), smaller)
	}
}

func TestID(t *testing.T) {
	if first, second := codec.ZstdID(), codec.ZstdID(); first == "" || first != second {
		t.Errorf("got %q and %q, want the same one twice, not empty", first, second)
	}
}

// There is an encoder for each core, so that each takes little memory.
func TestMemoryOfAnEncoder(t *testing.T) {
	raw := make([]byte, 128<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	enc, err := codec.NewZstdBlock(3)
	if err != nil {
		t.Fatal(err)
	}
	enc.Compress(make([]byte, len(raw)), raw)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 2<<20 {
		t.Errorf("got %d bytes, want at most 2 MiB", got)
	}
}
