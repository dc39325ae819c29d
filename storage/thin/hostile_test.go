package thin_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/thin"
)

// small is a pair of layers whose thin delta has contents of every kind.
func small(t testing.TB) (index, data []byte, base thin.Store, next []byte) {
	t.Helper()
	entries := func(n int) []sample.Entry {
		return []sample.Entry{
			sample.Dir("etc"), sample.File("etc/same", program(1, 3000, 0)), sample.File("etc/changed", program(2, 5000, n)),
			sample.File("etc/"+strings.Repeat("x", n), program(uint64(10+n), 4000, 0)), sample.File("etc/other", program(3, 2000, 0)),
		}
	}
	old := thinned.Chain{stream(t, entries(1)...)}
	next = stream(t, entries(2)...)
	base = thinned.Named("base.squashfs", store(t, nil, old))
	m := thin.Maker{
		Store: thinned.Named("next", store(t, nil, thinned.Chain{next})), Bases: []thin.Store{base}, Sources: old.IDs(),
		Workers: 1,
	}
	var d thinned.Data
	made, err := m.Make(t.Context(), &d)
	if err != nil {
		t.Fatal(err)
	}
	l := made.Layers[0]
	if l.Same.Files != 2 || l.Patched.Files != 1 || l.Literal.Files != 1 {
		t.Fatalf("got %+v, want contents of every kind", l)
	}
	return made.Index, d.Bytes(), base, next
}

// frame4GiB is a zstd frame with a window of 4 GiB.
func frame4GiB() []byte { return []byte{0x28, 0xb5, 0x2f, 0xfd, 0, (32 - 10) << 3, 1, 0, 0} }

// zeros is a frame of so many zeros.
func zeros(t *testing.T, size int) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return enc.EncodeAll(make([]byte, size), nil)
}

// Whatever a thin delta claims, it is refused, and the error names the layer and the file.
func TestHostileDeltas(t *testing.T) {
	index, data, base, next := small(t)
	literal := func(frame []byte) ([]byte, []byte) { return withLiteral(t, index, data, frame) }
	change := func(f func(*thin.Tables)) []byte {
		changed, err := thin.Change(index, f)
		if err != nil {
			t.Fatal(err)
		}
		return changed
	}
	const file = "etc/xx"
	window, windowData := literal(frame4GiB())
	bomb, bombData := literal(zeros(t, 1<<30))
	short, shortData := literal(zeros(t, 10))
	for name, tc := range map[string]struct {
		index, data []byte
		want        string
	}{
		"stream that is longer":        {change(func(x *thin.Tables) { x.Claim(int64(len(next)) + 512) }), data, "bytes and SHA-256"},
		"stream that is shorter":       {change(func(x *thin.Tables) { x.Claim(int64(len(next)) - 512) }), data, "more than"},
		"stream of 1 EiB":              {change(func(x *thin.Tables) { x.Claim(1 << 60) }), data, "the limit is 128 GiB"},
		"content that is longer":       {change(func(x *thin.Tables) { x.Lengthen(100) }), data, file},
		"content that is shorter":      {short, shortData, file},
		"window of 4 GiB":              {window, windowData, file},
		"bomb":                         {bomb, bombData, file},
		"file that the base has not":   {change(func(x *thin.Tables) { x.File(1000) }), data, "file 1000 of layer"},
		"another file":                 {change(func(x *thin.Tables) { x.File(2) }), data, "more than"},
		"dictionary behind its file":   {change(func(x *thin.Tables) { x.Span(1 << 40) }), data, "bytes 1099511627776 to"},
		"dictionary that is too large": {change(func(x *thin.Tables) { x.Dictionary(5 << 19) }), data, "a dictionary of more"},
		"dictionary of many spans":     {change(func(x *thin.Tables) { x.GoBack(1<<16+1, 0) }), data, "spans: 65537"},
		"span of no bytes":             {change(func(x *thin.Tables) { x.Empty() }), data, "a span of no bytes"},
		"many largest files":           {change(func(x *thin.Tables) { x.List(257) }), data, "largest files: 257"},
		"data that are cut short":      {index, data[:len(data)-1], file},
		"no data":                      {index, nil, "of its data"},
		"index that is cut short":      {index[:len(index)-1], data, "its index"},
		"index of something else":      {[]byte("hsqs and more than 16 bytes"), data, "its index begins"},
		"index with a window of 4 GiB": {append(slices.Clone(index[:16]), frame4GiB()...), data, "its index"},
		"index that is a bomb":         {append(slices.Clone(index[:16]), zeros(t, 1<<30)...), data, "its index"},
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, tc.index, tc.data, base, tc.want) })
	}
}

// wantRefused reads a thin delta that is damaged, within a limit of memory.
func wantRefused(t *testing.T, index, data []byte, base thin.Store, want string) {
	t.Helper()
	before := peak(t)
	err := thin.ReadAll(t.Context(), index, data, thin.Limits{}, func(thin.Layer, []byte) {
		t.Error("got a stream, want none")
	}, base)
	if !errors.Is(err, thin.ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v with %q", err, thin.ErrDamaged, want)
	}
	if errors.Is(err, io.EOF) {
		t.Errorf("got %v, which is %v, want another error", err, io.EOF)
	}
	if grown := peak(t) - before; grown > 150<<20 {
		t.Errorf("got %d MiB of memory, want at most 150", grown>>20)
	}
}

// A frame that needs a larger window than docs/format.md has is refused, although its content is right.
func TestWindowOfABlock(t *testing.T) {
	index, data, base, next := small(t)
	content := program(12, 4000, 0)
	for exponent, valid := range map[byte]bool{22 - 10: true, 23 - 10: false} {
		frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, exponent << 3}                // RFC 8878, 3.1.1
		frame = append(frame, byte(len(content)<<3|1), byte(len(content)>>5), 0) // the last block, raw
		changed, data := withLiteral(t, index, data, append(frame, content...))
		if !valid {
			wantRefused(t, changed, data, base, "etc/xx")
			continue
		}
		err := thin.ReadAll(t.Context(), changed, data, thin.Limits{}, func(_ thin.Layer, got []byte) {
			if !bytes.Equal(got, next) {
				t.Errorf("got %d other bytes, want %d", len(got), len(next))
			}
		}, base)
		if err != nil {
			t.Errorf("window of 4 MiB: got %v, want no error", err)
		}
	}
}

// withLiteral replaces the last block, that of the literals.
func withLiteral(t *testing.T, index, data, frame []byte) (newIndex, newData []byte) {
	t.Helper()
	var at int64
	changed, err := thin.Change(index, func(x *thin.Tables) {
		at, _ = x.Literal()
		x.SetLiteral(len(frame))
	})
	if err != nil {
		t.Fatal(err)
	}
	return changed, append(slices.Clone(data[:at]), frame...)
}

// Contents of few bytes, each of which needs another block than the one before, take no more time than larger ones.
func TestTooManyBlocks(t *testing.T) {
	old := thinned.Chain{stream(t, sample.File("etc/old", "old"))}
	const block = 3 << 19
	next := stream(t, sample.File("first", "a short one"), sample.File("long", strings.Repeat("long", (block-11)/4)),
		sample.File("last", "in another block"))
	m := thin.Maker{
		Store: thinned.Named("next", store(t, nil, thinned.Chain{next})), Sources: old.IDs(), Workers: 1,
		Bases: []thin.Store{thinned.Named("base", store(t, nil, old))},
	}
	var data thinned.Data
	made, err := m.Make(t.Context(), &data)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]string{10: "and SHA-256", 100: "too many blocks"} {
		index, err := thin.Change(made.Index, func(x *thin.Tables) { x.Alternate(n) })
		if err != nil {
			t.Fatal(err)
		}
		wantRefused(t, index, data.Bytes(), m.Bases[0], want)
	}
}

// Spans that go back in a long skeleton, for each of which it would be read again, are refused. A bug took hours.
func TestDictionaryThatGoesBack(t *testing.T) {
	var entries []sample.Entry
	for n := range 6000 { // a dictionary has the skeletons of some 2,500
		entries = append(entries, sample.File(fmt.Sprintf("etc/%d", n), "x"))
	}
	old := thinned.Chain{stream(t, append(entries, sample.File("program", program(2, 5000, 1)))...)}
	next := stream(t, append(entries, sample.File("program", program(2, 5000, 2)))...)
	m := thin.Maker{
		Store: thinned.Named("next", store(t, nil, thinned.Chain{next})), Sources: old.IDs(), Workers: 1,
		Bases: []thin.Store{thinned.Named("base", store(t, nil, old))},
	}
	var data thinned.Data
	made, err := m.Make(t.Context(), &data)
	if err != nil {
		t.Fatal(err)
	}
	index, err := thin.Change(made.Index, func(x *thin.Tables) { x.GoBack(100, 5_000_000) })
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, index, data.Bytes(), m.Bases[0], "needs the skeletons of base layers 17 times")
}

// Reading ends with its context, also within a file.
func TestReadingIsCanceled(t *testing.T) {
	_, _, m := wordsBases(t)
	delta, _ := makeThin(t, m)
	r, err := thin.Open(thinned.Named("delta", delta), thin.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l, err := r.Layer(ctx, r.Layers()[0].DiffID, m.Bases, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if _, err := io.CopyN(io.Discard, l, 100_000); err != nil {
		t.Fatal(err)
	}
	cancel()
	if n, err := l.Read(make([]byte, 10)); n > 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d bytes and %v, want %v", n, err, context.Canceled)
	}
}

func TestNewerDelta(t *testing.T) {
	err := thin.ReadAll(t.Context(), []byte("pinbox thin v2\n\x00 and what it has"), nil, thin.Limits{}, nil)
	if !errors.Is(err, pinset.ErrNewer) || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("got %v, want %v with the version", err, pinset.ErrNewer)
	}
}

func TestLimitOfALayer(t *testing.T) {
	index, data, base, next := small(t)
	err := thin.ReadAll(t.Context(), index, data, thin.Limits{Size: int64(len(next)) - 1}, nil, base)
	if want := digest.FromBytes(next).String(); !errors.Is(err, thin.ErrDamaged) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %v with the layer %s", err, thin.ErrDamaged, want)
	}
}

// A changed byte of the index or the data is never a wrong stream.
func TestEveryChangedByte(t *testing.T) {
	index, data, base, next := small(t)
	tables, err := thin.UnpackIndex(index)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, at int, index, data []byte) {
		err := thin.ReadAll(t.Context(), index, data, thin.Limits{Size: 1 << 20}, func(l thin.Layer, got []byte) {
			if !bytes.Equal(got, next) {
				t.Errorf("byte %d of the %s: got %d other bytes, want an error", at, what, len(got))
			}
		}, base)
		var other *thin.BaseError
		if err != nil && !errors.Is(err, thin.ErrDamaged) && !errors.Is(err, thin.ErrNoLayer) || errors.As(err, &other) {
			t.Errorf("byte %d of the %s: got %v, want %v", at, what, err, thin.ErrDamaged)
		}
	}
	for at := range tables {
		changed := slices.Clone(tables)
		changed[at] ^= 1 << (at % 8)
		packed, err := thin.PackIndex(changed)
		if err != nil {
			t.Fatal(err)
		}
		try("tables", at, packed, data)
	}
	for at := range data {
		changed := slices.Clone(data)
		changed[at] ^= 1 << (at % 8)
		try("data", at, index, changed)
	}
}

// A base with a damaged content gives an error with its place if the content is needed, and the right
// stream if not.
func TestDamagedBase(t *testing.T) {
	index, data, base, next := small(t)
	image := make([]byte, base.Size)
	if _, err := base.File.ReadAt(image, 0); err != nil {
		t.Fatal(err)
	}
	needed := 0
	for at := 96; at < len(image); at += 37 {
		changed := slices.Clone(image)
		changed[at] ^= 0x10
		right := false
		err := thin.ReadAll(t.Context(), index, data, thin.Limits{}, func(_ thin.Layer, got []byte) {
			right = bytes.Equal(got, next)
		}, thinned.Named("base.squashfs", changed))
		var place *thin.BaseError
		switch {
		case err == nil && !right:
			t.Errorf("byte %d: got another stream, want an error", at)
		case errors.As(err, &place):
			needed++
			if place.Store != "base.squashfs" || len(place.Layer) != 64 {
				t.Errorf("byte %d: got %+v, want the base and the layer", at, place)
			}
		case errors.Is(err, thin.ErrDamaged):
			t.Errorf("byte %d: got %v, want no error of the delta", at, err)
		}
	}
	if needed == 0 {
		t.Error("got no damaged content, want some")
	}
}

// A base that is cut short is a damaged one, not the end of the stream.
func TestShortBase(t *testing.T) {
	index, data, base, _ := small(t)
	image := make([]byte, base.Size)
	if _, err := base.File.ReadAt(image, 0); err != nil {
		t.Fatal(err)
	}
	base.File = cut{bytes.NewReader(image), 8000}
	err := thin.ReadAll(t.Context(), index, data, thin.Limits{}, func(thin.Layer, []byte) {
		t.Error("got a stream, want none")
	}, base)
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, thin.ErrDamaged) {
		t.Errorf("got %v, want an error of the base that is not %v", err, io.EOF)
	}
}

// cut is an image that ends where its files are, before offset keep.
type cut struct {
	*bytes.Reader
	keep int64
}

func (c cut) ReadAt(p []byte, at int64) (int, error) {
	if at >= 96 && at < c.keep {
		return 0, io.EOF
	}
	return c.Reader.ReadAt(p, at)
}

// Whatever the index and the data have, a stream that is read has the DiffID.
func FuzzThin(f *testing.F) {
	index, data, base, _ := small(f)
	tables, err := thin.UnpackIndex(index)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(tables, data)
	f.Add(tables[:len(tables)/2], data)
	f.Add(binary.AppendUvarint(nil, 1<<60), []byte{})
	f.Fuzz(func(t *testing.T, tables, data []byte) {
		index, err := thin.PackIndex(tables)
		if err != nil {
			t.Fatal(err)
		}
		_ = thin.ReadAll(t.Context(), index, data, thin.Limits{Size: 1 << 20}, func(l thin.Layer, got []byte) {
			if digest.FromBytes(got) != l.DiffID || int64(len(got)) != l.Size {
				t.Errorf("got %d bytes of %s, want %d of %s", len(got), digest.FromBytes(got), l.Size, l.DiffID)
			}
		}, base)
	})
}
