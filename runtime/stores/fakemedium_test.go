package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
)

// fakeMedium is a medium with one store, whose bytes begin at an offset.
type fakeMedium struct {
	texts map[string]string
	size  int64
}

const storeOffset = 64 << 10 // bytes

func (m fakeMedium) Close() error { return nil }

func (m fakeMedium) ReadText(name string) ([]byte, error) {
	text, ok := m.texts[filepath.Base(name)]
	if !ok {
		return nil, os.ErrNotExist
	}
	return []byte(text), nil
}

func (m fakeMedium) Extent(string) (offset, size int64, err error) {
	if m.size == 0 {
		return 0, 0, os.ErrNotExist
	}
	return storeOffset, m.size, nil
}

// writeMedium writes a medium into a file that the node then reads.
func (d *testNode) writeMedium(s testStore, sums bool) (file string, id digest.Digest) {
	d.t.Helper()
	store, err := os.ReadFile(filepath.Join(s.folder(d.t), "delta.squashfs"))
	if err != nil {
		d.t.Fatal(err)
	}
	id = digest.FromBytes(store)
	medium := fakeMedium{size: int64(len(store)), texts: map[string]string{}}
	if sums {
		medium.texts["sums.txt"] = id.Encoded() + "  store.squashfs\n"
	}
	d.OpenMedium = func(string) (stores.Medium, error) { return medium, nil }
	image := make([]byte, storeOffset)
	copy(image[16*2048+1:], "CD001") // ECMA-119, 8.1.2
	file = filepath.Join(d.t.TempDir(), "medium.iso")
	if err := os.WriteFile(file, append(image, store...), 0o644); err != nil {
		d.t.Fatal(err)
	}
	return file, id
}

// The store and its sum are read from the medium, unless the caller names a digest.
func TestMediumSums(t *testing.T) {
	for name, c := range map[string]struct {
		sums, named bool
		change      func(*testNode)
		want        error
	}{
		"with sums":     {true, false, nil, nil},
		"with a digest": {false, true, nil, nil},
		"without sums":  {false, false, nil, stores.ErrNoDigest},
		"without a store": {true, false, func(d *testNode) {
			d.OpenMedium = func(string) (stores.Medium, error) { return fakeMedium{}, nil }
		}, stores.ErrNoStore},
		"damaged": {true, false, func(d *testNode) {
			d.OpenMedium = func(string) (stores.Medium, error) { return nil, errors.New("no directory") }
		}, stores.ErrDamaged},
		"a long signature": {true, false, func(d *testNode) {
			texts := map[string]string{layout.MediumSignature: strings.Repeat("x", longestSignature+1)}
			d.OpenMedium = func(string) (stores.Medium, error) { return fakeMedium{texts: texts, size: 1}, nil }
		}, stores.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			file, id := d.writeMedium(delta(1), c.sums)
			if c.change != nil {
				c.change(d)
			}
			o := stores.AttachOptions{Source: file}
			if c.named {
				o.Digest = id
			}
			if _, err := d.Attach(t.Context(), o); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if c.want != nil {
				d.wantUntouched()
				return
			}
			d.wantMounted(1)
		})
	}
}

// The store in the image of a medium is used in place, at its offset and with its size.
func TestMediumImageInPlace(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	file, _ := d.writeMedium(delta(1), true)
	got := d.attach(stores.AttachOptions{Source: file, InPlace: true})
	if got.Path != file || got.Offset != storeOffset || got.Medium {
		t.Errorf("got %+v, want the store in %s at %d", got, file, storeOffset)
	}
	d.reboot()
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted(1)
	d.reboot()
	if err := os.Truncate(file, storeOffset+100); err != nil {
		t.Fatal(err)
	}
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	if got := d.problem("1"); !errors.Is(got, stores.ErrDamaged) || !strings.Contains(got.Error(), "100 bytes, want ") {
		t.Errorf("got %v, want %v: 100 bytes are left", got, stores.ErrDamaged)
	}
}

// A medium in a drive is found again by its sum, and reported missing once it is removed.
func TestMediumInADrive(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	file, _ := d.writeMedium(delta(1), true)
	drive := fixtures.LoopDevice(t, file, "--read-only")
	read := d.OpenMedium
	d.OpenMedium = func(name string) (stores.Medium, error) {
		if name != drive { // the machine may have others
			return nil, os.ErrNotExist
		}
		return read(name)
	}
	if got := d.attach(stores.AttachOptions{Source: drive, InPlace: true}); !got.Medium {
		t.Errorf("got %+v, want a store on a medium", got)
	}
	d.reboot()
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	d.wantMounted(1)
	inDrive := d.OpenMedium
	d.OpenMedium = func(string) (stores.Medium, error) { return nil, os.ErrNotExist }
	if got := d.problem("1"); !errors.Is(got, stores.ErrMissing) { // the kernel still has some of its blocks
		t.Errorf("removed while it is mounted: got %v, want %v", got, stores.ErrMissing)
	}
	d.OpenMedium = inDrive
	d.reboot()
	fixtures.Run(t, "losetup", "--detach", drive)
	fixtures.Until(t, func() error { // the kernel keeps it while another program of the machine has it open
		if left := fixtures.Run(t, "losetup", "--associated", file); left != "" {
			return errors.New(left)
		}
		return nil
	})
	if err := d.reconcile(); err != nil {
		t.Error(err)
	}
	if got := d.problem("1"); !errors.Is(got, stores.ErrMissing) {
		t.Errorf("got %v, want %v", got, stores.ErrMissing)
	}
}
