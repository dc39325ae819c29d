package stores_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// disc is a medium of one store, whose bytes begin at an offset.
type disc struct {
	texts map[string]string
	size  int64
}

const discOffset = 64 << 10 // bytes

func (d disc) Close() error { return nil }

func (d disc) ReadText(name string) ([]byte, error) {
	text, ok := d.texts[filepath.Base(name)]
	if !ok {
		return nil, os.ErrNotExist
	}
	return []byte(text), nil
}

func (d disc) Extent(string) (offset, size int64, err error) {
	if d.size == 0 {
		return 0, 0, os.ErrNotExist
	}
	return discOffset, d.size, nil
}

// burn writes a medium into a file, and has the node read it.
func (d *desk) burn(s small, sums bool) (file string, id digest.Digest) {
	d.t.Helper()
	store, err := os.ReadFile(filepath.Join(s.folder(d.t), "delta.squashfs"))
	if err != nil {
		d.t.Fatal(err)
	}
	id = digest.FromBytes(store)
	medium := disc{size: int64(len(store)), texts: map[string]string{}}
	if sums {
		medium.texts["sums.txt"] = id.Encoded() + "  store.squashfs\n"
	}
	d.OpenMedium = func(string) (stores.Medium, error) { return medium, nil }
	image := make([]byte, discOffset)
	copy(image[16*2048+1:], "CD001") // ECMA-119, 8.1.2
	file = filepath.Join(d.t.TempDir(), "disc.iso")
	if err := os.WriteFile(file, append(image, store...), 0o644); err != nil {
		d.t.Fatal(err)
	}
	return file, id
}

// A medium says where its store is and what its sum is, unless somebody else does.
func TestDiscs(t *testing.T) {
	for name, c := range map[string]struct {
		sums, named bool
		change      func(*desk)
		want        error
	}{
		"with sums":     {true, false, nil, nil},
		"with a digest": {false, true, nil, nil},
		"without sums":  {false, false, nil, stores.ErrNoDigest},
		"without a store": {true, false, func(d *desk) {
			d.OpenMedium = func(string) (stores.Medium, error) { return disc{}, nil }
		}, stores.ErrNoStore},
		"damaged": {true, false, func(d *desk) {
			d.OpenMedium = func(string) (stores.Medium, error) { return nil, errors.New("no directory") }
		}, stores.ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			d := sit(t, small{n: 0})
			file, id := d.burn(delta(1), c.sums)
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
				d.untouched()
				return
			}
			d.has(1)
		})
	}
}

// The image of a medium is used in place: at its offset, and no further than its size.
func TestImageOfADiscInPlace(t *testing.T) {
	d := sit(t, small{n: 0})
	file, _ := d.burn(delta(1), true)
	got := d.attach(stores.AttachOptions{Source: file, InPlace: true})
	if got.Path != file || got.Offset != discOffset || got.Medium {
		t.Errorf("got %+v, want the store in %s at %d", got, file, discOffset)
	}
	d.reboot()
	if err := d.starts(); err != nil {
		t.Error(err)
	}
	d.has(1)
	d.reboot()
	if err := os.Truncate(file, discOffset+100); err != nil {
		t.Fatal(err)
	}
	if err := d.starts(); err != nil {
		t.Error(err)
	}
	if got := d.unavailable("1"); !errors.Is(got, stores.ErrDamaged) {
		t.Errorf("got %v, want %v", got, stores.ErrDamaged)
	}
}

// A medium in a drive is found again by its sum, and missed when it is taken out.
func TestDiscInADrive(t *testing.T) {
	d := sit(t, small{n: 0})
	file, _ := d.burn(delta(1), true)
	drive := strings.TrimSpace(fixtures.Run(t, "losetup", "--find", "--show", "--read-only", file))
	t.Cleanup(func() { _ = exec.Command("losetup", "--detach", drive).Run() }) // or it was taken out
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
	if err := d.starts(); err != nil {
		t.Error(err)
	}
	d.has(1)
	d.reboot()
	fixtures.Run(t, "losetup", "--detach", drive)
	if err := d.starts(); err != nil {
		t.Error(err)
	}
	if got := d.unavailable("1"); !errors.Is(got, stores.ErrMissing) {
		t.Errorf("got %v, want %v", got, stores.ErrMissing)
	}
}
