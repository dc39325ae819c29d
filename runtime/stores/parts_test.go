package stores_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
)

// splitFolder splits the store in a folder into three parts, as `pinbox medium --split` does.
func splitFolder(t *testing.T, folder string) string {
	t.Helper()
	store := filepath.Join(folder, "delta.squashfs")
	content, err := os.ReadFile(store)
	if err != nil {
		t.Fatal(err)
	}
	sums := layout.Sums{"delta.squashfs": digest.FromBytes(content).Encoded()}
	size := (len(content) + 2) / 3
	for n := 1; n <= 3; n++ {
		part := content[(n-1)*size : min(n*size, len(content))]
		write(t, fmt.Sprintf("%s.00%d", store, n), string(part))
	}
	write(t, filepath.Join(folder, "SHA256SUMS"), string(sums.Encode()))
	if err := os.Remove(store); err != nil {
		t.Fatal(err)
	}
	return folder
}

// A store in parts is found by its folder, by its name and by the name of a part, and is attached as one file.
func TestStoreInParts(t *testing.T) {
	for _, name := range []string{"", "delta.squashfs", "delta.squashfs.001", "delta.squashfs.003"} {
		t.Run(name, func(t *testing.T) {
			d := newNode(t, testStore{n: 0})
			folder := splitFolder(t, delta(1).folder(t))
			sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS"))
			if err != nil {
				t.Fatal(err)
			}
			got := d.attach(stores.AttachOptions{Source: filepath.Join(folder, name)})
			if !bytes.Contains(sums, []byte(got.ID.Encoded()+"  delta.squashfs\n")) {
				t.Errorf("got the digest %s, want that of the whole store in\n%s", got.ID, sums)
			}
			d.wantMounted(1)
		})
	}
}

// On a node with keys, the signature of the whole store counts.
func TestSignedStoreInParts(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	folder := delta(1).folder(t)
	d.requireSignatures(sign(t, filepath.Join(folder, "delta.squashfs")))
	signature := filepath.Join(splitFolder(t, folder), "delta.squashfs.sig")
	replaceSum(t, folder, "delta.squashfs", "")
	unsigned := splitFolder(t, delta(2).folder(t))
	if err := os.Link(signature, filepath.Join(unsigned, "delta.squashfs.sig")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: unsigned}); !errors.Is(err, stores.ErrSignature) {
		t.Errorf("with the signature of another store: got %v, want %v", err, stores.ErrSignature)
	}
	d.attach(stores.AttachOptions{Source: folder})
	d.wantMounted(1)
}

// With a part that is missing, of another store, cut off, or in the place of another, nothing is left.
func TestBadParts(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	other := splitFolder(t, delta(2).folder(t))
	move := func(from, to string) error { return os.Rename(from, to) }
	for name, c := range map[string]struct {
		spoil func(store string) error
		want  error
	}{
		"the first is missing":  {func(s string) error { return os.Remove(s + ".001") }, stores.ErrNoStore},
		"the second is missing": {func(s string) error { return os.Remove(s + ".002") }, stores.ErrDamaged},
		"the last is missing":   {func(s string) error { return os.Remove(s + ".003") }, stores.ErrDamaged},
		"swapped": {func(s string) error {
			return errors.Join(move(s+".001", s+".x"), move(s+".002", s+".001"), move(s+".x", s+".002"))
		}, stores.ErrDamaged},
		"cut off":           {func(s string) error { return os.Truncate(s+".002", 1000) }, stores.ErrDamaged},
		"the last cut off":  {func(s string) error { return os.Truncate(s+".003", 1000) }, stores.ErrDamaged},
		"the last is empty": {func(s string) error { return os.Truncate(s+".003", 0) }, stores.ErrDamaged},
		"of another store": {func(s string) error {
			content, err := os.ReadFile(filepath.Join(other, "delta.squashfs.001"))
			return errors.Join(err, os.WriteFile(s+".001", content, 0o644))
		}, stores.ErrDamaged},
		"a link to a device": {func(s string) error {
			return errors.Join(os.Remove(s+".003"), os.Symlink("/dev/zero", s+".003"))
		}, stores.ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			folder := splitFolder(t, delta(1).folder(t))
			if err := c.spoil(filepath.Join(folder, "delta.squashfs")); err != nil {
				t.Fatal(err)
			}
			_, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder})
			if !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if left, err := filepath.Glob(filepath.Join(d.Dir, "*.squashfs*")); err != nil || len(left) > 0 {
				t.Errorf("got %q, %v in the state's folder, want nothing", left, err)
			}
			d.wantMounted()
		})
	}
}

// A hostile stick: sums that agree with parts of which the whole is not what it should be, no sums, several stores,
// and more files than anybody has.
func TestHostileStick(t *testing.T) {
	d := newNode(t, testStore{n: 0})
	for name, c := range map[string]struct {
		spoil func(t *testing.T, folder string)
		want  error
	}{
		"the sum of the whole differs": {func(t *testing.T, folder string) {
			replaceSum(t, folder, "delta.squashfs", digest.FromString("x").Encoded())
		}, stores.ErrDamaged},
		"no sums": {func(t *testing.T, folder string) { write(t, filepath.Join(folder, "SHA256SUMS"), "") }, stores.ErrNoDigest},
		"large sums": {func(t *testing.T, folder string) {
			write(t, filepath.Join(folder, "SHA256SUMS"), strings.Repeat("x", 2<<20))
		}, stores.ErrNoDigest},
		"two stores": {func(t *testing.T, folder string) {
			for _, name := range []string{"a.squashfs", "b.squashfs"} {
				write(t, filepath.Join(folder, "pinbox", name), "x")
			}
			for n := 1; n <= 3; n++ {
				if err := os.Remove(fmt.Sprintf("%s/delta.squashfs.00%d", folder, n)); err != nil {
					t.Fatal(err)
				}
			}
		}, stores.ErrNoStore},
		"too many files": {func(t *testing.T, folder string) {
			for n := range 10_000 {
				write(t, filepath.Join(folder, fmt.Sprint(n)), "")
			}
		}, stores.ErrNoStore},
	} {
		t.Run(name, func(t *testing.T) {
			folder := splitFolder(t, delta(1).folder(t))
			c.spoil(t, folder)
			if _, err := d.Attach(t.Context(), stores.AttachOptions{Source: folder}); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

// replaceSum replaces the sum of a file in SHA256SUMS.
func replaceSum(t *testing.T, folder, name, sum string) {
	t.Helper()
	file := filepath.Join(folder, "SHA256SUMS")
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sums, err := layout.ReadSums(bytes.NewReader(content), layout.MaxSums)
	if err != nil {
		t.Fatal(err)
	}
	if sums[name] = sum; sum == "" {
		delete(sums, name)
	}
	write(t, file, string(sums.Encode()))
}
