package stores_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/runtime/stores"
)

// A store that was fetched is moved to its place, not copied; one that is refused is removed.
func TestAttachTakesTheFile(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for _, c := range []struct { // in this order: of a release that is attached, the file is not read
		name, folder string
		want         error
	}{
		{"refused", delta(1).folder(t), stores.ErrDamaged},
		{"attached", delta(1).folder(t), nil},
	} {
		incoming := filepath.Join(d.Dir, "incoming")
		if err := os.MkdirAll(incoming, 0o700); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(incoming, "delta.squashfs")
		fixtures.Run(t, "cp", filepath.Join(c.folder, "delta.squashfs"), file)
		fixtures.Run(t, "cp", filepath.Join(c.folder, "SHA256SUMS"), incoming)
		if c.want != nil {
			damage(t, file)
		}
		before, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		a, err := d.Attach(t.Context(), stores.AttachOptions{Source: file, Take: true})
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: got %v, want that the file is gone", c.name, err)
		}
		if c.want != nil {
			continue
		}
		after, err := os.Stat(filepath.Join(d.Dir, a.Store.ID.Encoded()+".squashfs"))
		if err != nil || !os.SameFile(before, after) {
			t.Errorf("%s: got another file, %v, want the one that was fetched", c.name, err)
		}
	}
}

// damage changes a byte of a file.
func damage(t *testing.T, file string) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[len(content)/2] ^= 1
	write(t, file, string(content))
}
