package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/squashfs"
	"github.com/pinbox/pinbox/storage/thin"
)

// random is data that cannot be compressed.
func random(seed uint64, size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(b)
	return string(b)
}

// thinPair builds an appliance, and a thin delta for a release in which one file is changed a little, one of so many
// bytes stays, and one is removed. The blocks of the stores are not compressed.
func thinPair(t *testing.T, stays int) (base, delta string) {
	t.Helper()
	folder, _ := once(t, fmt.Sprintf("thin %d", stays), func(r *sample.Registry, folder string) []string {
		makeThinPair(t, r, stays, folder)
		return nil
	})
	return filepath.Join(folder, "base"), filepath.Join(folder, "delta")
}

func makeThinPair(t *testing.T, registry *sample.Registry, stays int, folder string) {
	t.Helper()
	base := filepath.Join(folder, "base")
	changed := random(1, 400_000)
	for n, entries := range [][]sample.Entry{
		{sample.File("data/changed", changed), sample.File("data/stays", random(2, stays)),
			sample.File("data/removed", random(3, 300_000))},
		{sample.File("data/changed", changed[:1000]+"changed"+changed[1000:]), sample.File("data/stays", random(2, stays)),
			sample.File("data/new", random(4, 5000))},
	} {
		stream, err := sample.Tar(entries...)
		if err != nil {
			t.Fatal(err)
		}
		layer, err := sample.NewLayer(stream, types.OCIUncompressedLayer)
		if err != nil {
			t.Fatal(err)
		}
		img, err := sample.Image("amd64", false, layer)
		if err != nil {
			t.Fatal(err)
		}
		pin, err := registry.Push(t.Context(), fmt.Sprintf("app/thin-%d", stays), img)
		if err != nil {
			t.Fatal(err)
		}
		o := appliance.Options(t, sample.SetNamed("s", pin))
		o.Appliance.Spec.Store.Compression = squashfs.None
		if n == 0 {
			o.Out = base
			appliance.Build(t, o)
			continue
		}
		o.Out = filepath.Join(folder, "delta")
		thinOfOptions(t, o, base)
	}
}

// thinOf builds the thin delta of an image.
func thinOf(t *testing.T, pin, base string) (folder string) {
	t.Helper()
	o := appliance.Options(t, sample.SetNamed("s", pin))
	return thinOfOptions(t, o, base)
}

func thinOfOptions(t *testing.T, o builder.Options, base string) (folder string) {
	t.Helper()
	o.From, o.Thin = []string{base}, true
	buildDelta(t, o)
	return o.Out
}

// taken is the space that is taken of a disk, in bytes.
func taken(t *testing.T, dir string) int64 {
	t.Helper()
	var disk unix.Statfs_t
	if err := unix.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	return int64(disk.Blocks-disk.Bfree) * disk.Bsize
}

// space is the room on a node.
type space func(bytes int64) error

// Fits implements stores.Node.
func (s space) Fits(bytes int64) error { return s(bytes) }

// List implements stores.Node.
func (s space) List(context.Context) error { return nil }

// during is called with the progress of a step.
type during struct {
	step stores.Step
	call func(of stores.Store, done, all int64)
}

// Done implements stores.Progress.
func (d during) Done(step stores.Step, of stores.Store, done, all int64) {
	if step == d.step {
		d.call(of, done, all)
	}
}

// Note implements stores.Progress.
func (d during) Note(string) {}

// reading is called with the progress of a copy.
func reading(call func(done, all int64)) stores.Progress {
	return during{stores.Reading, func(_ stores.Store, done, all int64) { call(done, all) }}
}

// A store that is put together takes no more space meanwhile than was asked for: little more than the store. The
// progress grows up to its end.
func TestThinDeltaTakesTheSpaceOfItsStore(t *testing.T) {
	base, delta := thinPair(t, 48<<20)
	m := newManager(t, base, "500m")
	before := taken(t, filepath.Dir(m.Dir))
	var asked, peak, last, end int64
	o := stores.AttachOptions{
		Source: delta,
		Node:   space(func(bytes int64) error { asked = max(asked, bytes); return nil }),
		Progress: during{stores.Composing, func(of stores.Store, done, all int64) {
			if done < last || of.Thin == "" || of.ID != "" {
				t.Errorf("got %d of %d bytes of %+v after %d, want more, of a thin delta", done, all, of, last)
			}
			last, end = done, all
			peak = max(peak, taken(t, filepath.Dir(m.Dir))-before)
		}},
	}
	store := attach(t, m, o)
	if last == 0 || last != end {
		t.Errorf("got %d of %d bytes, want all", last, end)
	}
	if peak > asked || asked > store.Size+store.Size/32+32<<20 || peak < store.Size {
		t.Errorf("got %d bytes of the disk, asked for %d, of a store of %d; want little more than that", peak, asked,
			store.Size)
	}
	t.Logf("store %d, asked for %d, took %d", store.Size, asked, peak)
	wantMounted(t, m, 1)
}

// The size in a thin delta may be false: while its store is put together, the space is checked again, and nothing is
// left.
func TestThinDeltaWithAFalseSize(t *testing.T) {
	base, delta := thinPair(t, 48<<20)
	m := newManager(t, base, "500m")
	full, asked := errors.New("full"), 0
	_, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta, Node: space(func(bytes int64) error {
		if asked++; bytes > 0 { // by the sizes of the delta
			return nil
		}
		return full
	})})
	if !errors.Is(err, full) {
		t.Errorf("got %v after %d checks, want that the last one ends it", err, asked)
	}
	wantNothingAttached(t, m)
}

// Another program fills the disk while a store is put together, or the medium with the base is removed: nothing is
// left, and the next attach succeeds.
func TestThinDeltaInterrupted(t *testing.T) {
	base, delta := thinPair(t, 24<<20)
	for name, c := range map[string]struct {
		// interrupt is called in the middle, and repair afterwards.
		interrupt, repair func(m stores.Manager) error
		want              []error
	}{
		"the disk is full": {
			func(m stores.Manager) error {
				_ = os.WriteFile(filepath.Join(filepath.Dir(m.Dir), "other"), make([]byte, 200<<20), 0o644) // as far as it goes
				return nil
			},
			func(m stores.Manager) error { return os.Remove(filepath.Join(filepath.Dir(m.Dir), "other")) },
			[]error{syscall.ENOSPC},
		},
		"the base is gone": {
			func(stores.Manager) error { return os.Truncate(filepath.Join(base, layout.StoreFile), 1<<20) },
			nil, []error{thin.ErrBase, syscall.EIO},
		},
	} {
		t.Run(name, func(t *testing.T) {
			whole, err := os.ReadFile(filepath.Join(base, layout.StoreFile))
			if err != nil {
				t.Fatal(err)
			}
			m := newManager(t, base, "150m")
			done := false
			progress := during{stores.Composing, func(_ stores.Store, n, all int64) {
				if !done && n > all/10 {
					done = true
					if err := c.interrupt(m); err != nil {
						t.Error(err)
					}
				}
			}}
			_, err = m.Attach(t.Context(), stores.AttachOptions{Source: delta, Progress: progress})
			for _, want := range c.want {
				if !errors.Is(err, want) {
					t.Errorf("got %v, want %v", err, want)
				}
			}
			wantNothingAttached(t, m)
			if c.repair == nil {
				err = os.WriteFile(filepath.Join(base, layout.StoreFile), whole, 0o644)
			} else {
				err = c.repair(m)
			}
			if err != nil {
				t.Fatal(err)
			}
			attach(t, m, stores.AttachOptions{Source: delta})
			wantMounted(t, m, 1)
		})
	}
}

// A store that is damaged is put together again from its thin delta, and is the same then.
func TestThinDeltaRepairsItsStore(t *testing.T) {
	base, delta := thinPair(t, 300_000)
	m := newManager(t, base, "50m")
	store := attach(t, m, stores.AttachOptions{Source: delta})
	reboot(t, m)
	if err := os.Truncate(filepath.Join(m.Dir, store.ID.Encoded()+".squashfs"), 4096); err != nil {
		t.Fatal(err)
	}
	for _, repaired := range []bool{true, false} {
		a, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta})
		if err != nil {
			t.Fatal(err)
		}
		if a.Repaired != repaired || !a.Found || a.Store.ID != store.ID || a.Store.Thin != store.Thin {
			t.Errorf("got %+v, want the store %+v, repaired %v", a, store, repaired)
		}
		wantMounted(t, m, 1)
	}
}

// A changed byte of the base matters only in a content that is needed: then the message names the base, the layer and
// the path. One in the thin delta is found before anything in it is read, and so is a missing end.
func TestThinDeltaWithChangedBytes(t *testing.T) {
	base, delta := thinPair(t, 300_000)
	file := filepath.Join(delta, layout.ThinStoreFile)
	for name, c := range map[string]struct {
		damage func(t *testing.T, m stores.Manager)
		err    error
		texts  []string
	}{
		"of a content that stays": {inBase("data/stays"), thin.ErrBase,
			[]string{"the appliance's own store: layer ", `"data/stays"`}},
		"of a content that is patched": {inBase("data/changed"), thin.ErrBase,
			[]string{"the appliance's own store: layer ", `"data/changed"`}},
		"of a content that is not needed": {inBase("data/removed"), nil, nil},
		"of the thin delta": {func(t *testing.T, _ stores.Manager) { changeByte(t, file, 5000) }, stores.ErrDamaged,
			[]string{"it has SHA-256"}},
		"at its start": {func(t *testing.T, _ stores.Manager) { changeByte(t, file, 40) }, stores.ErrDamaged,
			[]string{"it has SHA-256"}},
		"cut short": {func(t *testing.T, _ stores.Manager) {
			if err := os.Truncate(file, 4000); err != nil {
				t.Fatal(err)
			}
		}, stores.ErrDamaged, []string{"it has SHA-256"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{file, filepath.Join(base, layout.StoreFile)} {
				whole, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				defer os.WriteFile(name, whole, 0o644)
			}
			m := newManager(t, base, "50m")
			c.damage(t, m)
			_, err := m.Attach(t.Context(), stores.AttachOptions{Source: delta})
			if !errors.Is(err, c.err) {
				t.Errorf("got %v, want %v", err, c.err)
			}
			for _, text := range c.texts {
				if !strings.Contains(fmt.Sprint(err), text) {
					t.Errorf("got %v, want %q", err, text)
				}
			}
			if c.err == nil {
				wantMounted(t, m, 1)
			} else {
				wantNothingAttached(t, m)
			}
		})
	}
}

// inBase changes a byte of a file in the appliance's own store.
func inBase(name string) func(*testing.T, stores.Manager) {
	return func(t *testing.T, m stores.Manager) {
		t.Helper()
		inStore(t, m.Slots[0], name)
	}
}

// inStore changes a byte of a file in the store that is mounted at a slot.
func inStore(t *testing.T, slot, name string) {
	t.Helper()
	path, _ := fileIn(t, slot, name)
	flip(t, backing(t, slot), path)
	device := fixtures.Run(t, "findmnt", "--noheadings", "--output", "SOURCE", slot)
	fixtures.Run(t, "blockdev", "--flushbufs", strings.TrimSpace(device)) // which has read the byte
}

func changeByte(t *testing.T, file string, at int) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[at] ^= 1
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
