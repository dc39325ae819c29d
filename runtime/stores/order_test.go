package stores_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/runtime/stores/mount"
	"github.com/pinbox/pinbox/storage/layout"
)

// otherArchitecture makes a store for another architecture.
func otherArchitecture(tree string) error {
	name := filepath.Join(tree, "pinbox/pinbox.lock.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	other := bytes.Replace(text, []byte("linux/"+goruntime.GOARCH), []byte("linux/s390x"), 1)
	return os.WriteFile(name, other, 0o644)
}

// The file system of a store is opened only once its digest and signature are verified, and then that
// of the copy. What is refused leaves nothing behind.
func TestNothingIsParsedBeforeItIsVerified(t *testing.T) {
	whole, foreign, orphan := delta(1).folder(t), delta(1), testStore{n: 8}
	foreign.damage = otherArchitecture
	lying := delta(1).folder(t)
	write(t, filepath.Join(lying, "SHA256SUMS"), zeros+"  delta.squashfs\n")
	full := errors.New("no room")
	for name, c := range map[string]struct {
		o      stores.AttachOptions
		change func(*testNode)
		want   error
		parsed bool
	}{
		"a store":        {stores.AttachOptions{Source: whole}, nil, nil, true},
		"another digest": {stores.AttachOptions{Source: lying}, nil, stores.ErrDamaged, false},
		"in place":       {stores.AttachOptions{Source: lying, InPlace: true}, nil, stores.ErrDamaged, false},
		"in place, no dm-verity": {stores.AttachOptions{Source: whole, InPlace: true}, func(d *testNode) {
			d.Verity, d.Mapper = layout.VerityRequire, &loops{t: d.t, unavailable: errors.New("no device mapper here")}
		}, mount.ErrVerity, false},
		"another architecture": {stores.AttachOptions{Source: foreign.folder(t)}, nil, stores.ErrPlatform, true},
		"no base":              {stores.AttachOptions{Source: orphan.folder(t)}, nil, stores.ErrNoBase, true},
		"no signature": {stores.AttachOptions{Source: whole}, func(d *testNode) {
			d.requireSignatures(sign(t, filepath.Join(delta(2).folder(t), "delta.squashfs")))
		}, stores.ErrUnsigned, false},
		"no slot": {stores.AttachOptions{Source: whole}, func(d *testNode) {
			d.Configured = d.Slots[:1]
		}, stores.ErrNotConfigured, false},
		"no room": {
			stores.AttachOptions{Source: whole, Node: asked{fits: func(int64) error { return full }}}, nil, full, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			parsed := false
			d.OpenFS = func(e mount.Extent) (stores.FS, error) {
				if parsed = true; strings.HasPrefix(e.Path, c.o.Source) {
					t.Errorf("%s was opened, want only its copy", e.Path)
				}
				return stores.OpenFS(e)
			}
			if c.change != nil {
				c.change(d)
			}
			if _, err := d.Attach(t.Context(), c.o); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if parsed != c.parsed {
				t.Errorf("got parsed %v, want %v", parsed, c.parsed)
			}
			if c.want != nil {
				d.wantUntouched()
			}
		})
	}
}

// requireSignatures gives the node a key.
func (d *testNode) requireSignatures(key []byte) {
	d.t.Helper()
	write(d.t, filepath.Join(d.Keys, "site.pub"), string(key))
}

// A store that is attached already is found by its sums, without reading it.
func TestKnownStoreIsNotRead(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	d.attach(stores.AttachOptions{Source: folder})
	for _, auto := range []bool{false, true} {
		d.attach(stores.AttachOptions{Source: folder, Auto: auto, Progress: progress(func(stores.Step, int64, int64) {
			t.Errorf("auto %v: the store was read, want not", auto)
		})})
	}
}

// On a node with keys, the signature counts: sums are not needed, but must not be wrong. A store
// without sums is known once it is read.
func TestSignedStoreWithoutSums(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	file := filepath.Join(folder, "delta.squashfs")
	d.requireSignatures(sign(t, file))
	sums := filepath.Join(folder, "SHA256SUMS")
	write(t, sums, zeros+"  delta.squashfs\n")
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder}); !errors.Is(err, stores.ErrDamaged) {
		t.Errorf("wrong sums: got %v, want %v", err, stores.ErrDamaged)
	}
	if err := os.Remove(sums); err != nil {
		t.Fatal(err)
	}
	first := d.attach(stores.AttachOptions{Source: folder})
	d.wantMounted(1)
	a, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder})
	if err != nil || !a.Found || a.Store.ID != first.ID {
		t.Errorf("the second time: got %+v, %v, want that it is found", a, err)
	}
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder, InPlace: true}); err == nil {
		d.wantMounted(1)
	}
	if left, err := filepath.Glob(filepath.Join(d.Dir, "incoming*")); err != nil || len(left) > 0 {
		t.Errorf("got %v, %v, want no copy left", left, err)
	}
	d.rollback(0)
	if _, err := d.Detach(t.Context(), "1", d.main); err != nil {
		t.Fatal(err)
	}
	if a, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder, Auto: true}); err != nil || a.Store.Slot != "" {
		t.Errorf("after detach, automatically: got %+v, %v, want that nothing was changed", a, err)
	}
	d.attach(stores.AttachOptions{Source: folder})
	d.wantMounted(1)
}

// The files next to a store may be links to devices that have no end, or pipes.
func TestSumsAndSignaturesThatAreNoFiles(t *testing.T) {
	link := func(to string) func(string) error {
		return func(name string) error { return os.Symlink(to, name) }
	}
	pipe := func(name string) error { return syscall.Mkfifo(name, 0o644) }
	long := func(name string) error { return os.WriteFile(name, make([]byte, 2<<20), 0o644) }
	lines := func(name string) error {
		return os.WriteFile(name, []byte(strings.Repeat(zeros+"  a\n", 16<<10)), 0o644)
	}
	for name, c := range map[string]struct {
		file string
		make func(string) error
		want error
	}{
		"sums of /dev/zero":       {"SHA256SUMS", link("/dev/zero"), stores.ErrNoDigest},
		"sums in a pipe":          {"SHA256SUMS", pipe, stores.ErrNoDigest},
		"sums of zeros":           {"SHA256SUMS", long, stores.ErrNoDigest},
		"sums of too many files":  {"SHA256SUMS", lines, stores.ErrNoDigest},
		"signature of /dev/zero":  {"delta.squashfs.sig", link("/dev/zero"), stores.ErrSignature},
		"signature in a pipe":     {"delta.squashfs.sig", pipe, stores.ErrSignature},
		"signature of two MiB":    {"delta.squashfs.sig", long, stores.ErrSignature},
		"store in a pipe":         {"delta.squashfs", pipe, stores.ErrNoStore},
		"store that is /dev/zero": {"delta.squashfs", link("/dev/zero"), stores.ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			folder := delta(1).folder(t)
			file := filepath.Join(folder, c.file)
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
			if err := c.make(file); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			d.wantUntouched()
		})
	}
}

// A key file that is empty, perhaps because the power was cut, does not let unsigned stores in.
func TestKeyFileWithoutAKey(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	d.requireSignatures(nil)
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: delta(1).folder(t)}); err == nil ||
		!strings.Contains(err.Error(), "the file has no key") {
		t.Errorf("got %v, want that the file has no key", err)
	}
	d.wantUntouched()
}
