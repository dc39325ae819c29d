package thin_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/fixtures/thinned"
	"github.com/pinbox/pinbox/storage/thin"
)

// program is like a program that was built from version n of its source: nearly all of it is that of the
// other versions, at other places.
func program(seed uint64, size, n int) string {
	r := rand.New(rand.NewPCG(seed, 1))
	var b strings.Builder
	for b.Len() < size {
		if r.IntN(40) == 0 {
			fmt.Fprintf(&b, "version %d of function %x", n*n*n, r.Uint64())
		}
		for range 50 {
			b.WriteByte(byte(r.IntN(200)))
		}
	}
	return b.String()
}

func stream(t testing.TB, entries ...sample.Entry) []byte {
	t.Helper()
	b, err := sample.Tar(entries...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// release is the layers of release n of an image: files of every kind that stay, change, come and go.
func release(t testing.TB, n int) thinned.Chain {
	t.Helper()
	sized := func(name string, seed uint64, size int) sample.Entry {
		return sample.File(name, program(seed, size, 0))
	}
	attribute := sized("usr/bin/ping", 3, 30_000)
	attribute.PAXRecords = map[string]string{"SCHILY.xattr.user.key": fmt.Sprint("value ", n)}
	base := []sample.Entry{
		sample.Dir("usr"), sample.Dir("usr/bin"), sized("usr/bin/bash", 1, 300_000), attribute,
		sample.File("usr/bin/curl", program(2, 200_000, n)), sample.Hardlink("usr/bin/fetch", "usr/bin/curl"),
		sample.Symlink("usr/bin/sh", "bash"), sample.Dir("usr/lib"),
		sample.File(fmt.Sprintf("usr/lib/libssl.so.3.0.%d", n), program(4, 150_000, n)),
		sample.File("usr/lib/"+strings.Repeat("a-long-name/", 15)+"file", program(5, 3000, n)),
		sample.File("etc/os-release", fmt.Sprintf("VERSION_ID=%d\n", n)), sample.File("etc/empty", ""),
		sample.File(fmt.Sprintf("usr/share/new-%c", 'a'+n), program(uint64(100+n), 50_000, 0)),
		sample.File("usr/share/large", program(6, 9<<20, n)),
		sample.File("usr/share/again", program(2, 200_000, n)), sized("usr/share/LICENSE", 7, 35_000),
	}
	top := []sample.Entry{
		sample.Whiteout("usr/bin/sh"), sample.Opaque("usr/share"), sized("app/LICENSE", 7, 35_000),
		sample.File("app/bundle.js", program(8, 400_000, n)), sample.File("app/replaced", "first"),
		sample.File("app/replaced", fmt.Sprint("second ", n)),
		{Header: tar.Header{Name: "app/device", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3}},
	}
	return thinned.Chain{stream(t, base...), stream(t, top...)}
}

func store(t testing.TB, without []string, chains ...thinned.Chain) []byte {
	t.Helper()
	b, err := thinned.Store(without, chains...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// makeThin makes the thin form of a store over a base with layers.
func makeThin(t testing.TB, m thin.Maker) ([]byte, *thin.Made) {
	t.Helper()
	delta, made, err := thinned.Thin(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return delta, made
}

// pair is a release, and the thin delta to it from the one before.
type pair struct {
	old, next   thinned.Chain
	base, delta []byte
	maker       thin.Maker
	made        *thin.Made
}

func makePair(t testing.TB) pair {
	t.Helper()
	onePair.Do(func() { onePair.pair = newPair(t) })
	return onePair.pair
}

// onePair is made once for all tests, which do not change it.
var onePair struct {
	sync.Once
	pair
}

func newPair(t testing.TB) pair {
	t.Helper()
	p := pair{old: release(t, 1), next: release(t, 2)}
	p.base = store(t, nil, p.old)
	p.maker = thin.Maker{
		Store: thinned.Named("next", store(t, nil, p.next)), Bases: []thin.Store{thinned.Named("base", p.base)},
		Sources: p.old.IDs(),
	}
	p.delta, p.made = makeThin(t, p.maker)
	return p
}

func checkStreams(t *testing.T, got map[digest.Digest][]byte, want ...[]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %d streams, want %d", len(got), len(want))
	}
	for _, w := range want {
		if id := digest.FromBytes(w); !bytes.Equal(got[id], w) {
			t.Errorf("got %d other bytes, want the %d of %s", len(got[id]), len(w), id)
		}
	}
}

func TestStreamsAreThoseOfTheRelease(t *testing.T) {
	p := makePair(t)
	got, err := thinned.Read(t.Context(), thinned.Named("delta", p.delta), thinned.Named("base", p.base))
	if err != nil {
		t.Fatal(err)
	}
	checkStreams(t, got, p.next...)
	if full := len(store(t, nil, p.next)); len(p.delta)*4 > full {
		t.Errorf("got %d bytes, want less than a quarter of the store's %d", len(p.delta), full)
	}
	for n, l := range p.made.Layers {
		if l.Same.Files == 0 || l.Patched.Files == 0 {
			t.Errorf("layer %d: got %+v, want files that are the same, and patched", n, l)
		}
		sum := l.Skeleton.Size + l.Patched.Size + l.Literal.Size + l.Same.Size
		again := int64(0)
		if n == 0 {
			again = 200_000 // of usr/share/again, which is a copy of usr/bin/curl
		}
		if sum > l.Size-again || sum < l.Size-again-20_000 {
			t.Errorf("layer %d: got %d bytes in all, want %d", n, sum, l.Size)
		}
	}
}

// Without any base, all is literal.
func TestWithoutSources(t *testing.T) {
	next := release(t, 2)
	delta, made := makeThin(t, thin.Maker{Store: thinned.Named("next", store(t, nil, next))})
	got, err := thinned.Read(t.Context(), thinned.Named("delta", delta))
	if err != nil {
		t.Fatal(err)
	}
	checkStreams(t, got, next...)
	if len(made.Reads) > 0 {
		t.Errorf("got reads of %v, want none", made.Reads)
	}
}

func TestLayerOfNoBase(t *testing.T) {
	p := makePair(t)
	_, err := thinned.Read(t.Context(), thinned.Named("delta", p.delta))
	if !errors.Is(err, thin.ErrNoLayer) || !strings.Contains(err.Error(), p.old.IDs()[0]) {
		t.Errorf("got %v, want %v with the ID of the layer", err, thin.ErrNoLayer)
	}
}
