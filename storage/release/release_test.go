package release_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
	"github.com/pinbox/pinbox/storage/signature"
	"github.com/pinbox/pinbox/storage/squashfs"
)

const (
	lockText  = `{"version":1,"name":"edge","platform":"linux/amd64","sets":[],"images":[]}`
	deltaText = `{"version":1,"bases":[],"needs":[]}`
	thinText  = `{"version":1,"bases":[],"needs":[],"thin":{"version":1,"storeSize":4096,"reads":[]}}`
)

// files are the files of a release, by their paths.
type files map[string]string

// storeOf returns a squashfs image with the lock and a delta's description, "" for none.
func storeOf(t *testing.T, delta string) string {
	t.Helper()
	compressor, err := squashfs.NewCompressor(squashfs.Options{Compression: squashfs.Zstd})
	if err != nil {
		t.Fatal(err)
	}
	defer compressor.Close()
	pack, err := os.Create(filepath.Join(t.TempDir(), "pack"))
	if err != nil {
		t.Fatal(err)
	}
	packer := compressor.NewPacker(pack)
	own := squashfs.NewDir(0o755, 0, 0, 0)
	for name, text := range (files{layout.LockFile: lockText, layout.DeltaFile: delta}) {
		if text == "" {
			continue
		}
		content, err := packer.Content(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		own.Set(name, &squashfs.Inode{Mode: syscall.S_IFREG | 0o644, Content: content})
	}
	used, err := packer.Reopen(pack)
	if err != nil {
		t.Fatal(err)
	}
	writer, err := squashfs.NewWriter(compressor.ImageOptions(time.Unix(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	writer.AddPack(used)
	root := squashfs.NewDir(0o755, 0, 0, 0)
	root.Set(layout.OwnDir, own)
	image, err := writer.Close(root)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := image.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// with returns the files with one more.
func (f files) with(name, text string) files {
	f = maps.Clone(f)
	f[name] = text
	return f
}

// sum returns the files with their sums in the file of that name.
func (f files) sum(name string) files {
	sums := layout.Sums{}
	for file, text := range f {
		sums[file] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	}
	return f.with(name, string(sums.Encode()))
}

// folder writes the files to a folder.
func (f files) folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range f {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// medium writes the files to the folder of a medium's ISO.
func (f files) medium(t *testing.T) string {
	t.Helper()
	tree := files{}
	for name, text := range f {
		tree[filepath.Join(layout.MediumDir, name)] = text
	}
	iso := filepath.Join(t.TempDir(), "medium.iso")
	fixtures.Run(t, "xorriso", "-as", "mkisofs", "-quiet", "-rock", "-o", iso, tree.folder(t))
	return iso
}

// samples are releases in each of the forms.
type samples struct{ folder, delta, thin, dir, parts, medium files }

func newSamples(t *testing.T) (s samples) {
	t.Helper()
	lock := files{layout.LockFile: lockText, layout.ProvenanceFile: "{}"}
	store := storeOf(t, "")
	s.folder = lock.with(layout.StoreFile, store).sum(layout.SumsFile)
	delta, thin := lock.with(layout.DeltaFile, deltaText), lock.with(layout.DeltaFile, thinText)
	s.delta = delta.with(layout.DeltaStoreFile, storeOf(t, deltaText)).sum(layout.SumsFile)
	s.thin = thin.with(layout.ThinStoreFile, storeOf(t, thinText)).sum(layout.SumsFile)
	s.dir = lock.with(layout.StoreDir+"/"+layout.ImagesFile, "[]").sum(layout.SumsFile)
	s.parts = maps.Clone(s.folder)
	delete(s.parts, layout.StoreFile)
	s.parts[layout.PartName(layout.StoreFile, 1)] = store[:100]
	s.parts[layout.PartName(layout.StoreFile, 2)] = store[100:]
	s.medium = files{
		layout.MediumLock: lockText, layout.ProvenanceFile: "{}", layout.MediumStore: store,
	}.sum(layout.MediumSums)
	return s
}

// opened opens a release until the end of the test.
func opened(t *testing.T, name string, keys signature.Keys) *release.Release {
	t.Helper()
	r, err := release.Open(name, keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: got %v, want no error", err)
		}
	})
	return r
}

// Each form gives the same lock, and its store if that can be read in place.
func TestForms(t *testing.T) {
	s := newSamples(t)
	own := files{layout.OwnLock: lockText}.folder(t)
	medium := s.medium.medium(t)
	for _, test := range []struct {
		title, name string
		form        release.Form
		store       string // name in the form
		readable    bool   // in place
		delta, sums bool
		parts       bool
	}{
		{"folder", s.folder.folder(t), release.Folder, layout.StoreFile, true, false, true, false},
		{"delta", s.delta.folder(t), release.Folder, layout.DeltaStoreFile, true, true, true, false},
		{"thin delta", s.thin.folder(t), release.Folder, layout.ThinStoreFile, true, true, true, false},
		{"store as a folder", s.dir.folder(t), release.Folder, layout.StoreDir, true, false, true, false},
		{"parts", s.parts.folder(t), release.Folder, layout.StoreFile, false, false, true, true},
		{"ISO", medium, release.Medium, layout.MediumStore, true, false, true, false},
		{"folder of a mounted store", own, release.Mounted, "", false, false, false, false},
		{"lock", filepath.Join(s.folder.folder(t), layout.LockFile), release.LockOnly, "", false, false, false, false},
	} {
		t.Run(test.title, func(t *testing.T) {
			r := opened(t, test.name, nil)
			if r.Form != test.form || r.Names.Store != test.store || r.IsDelta() != test.delta || r.InParts() != test.parts {
				t.Errorf("got form %d, store %q, delta %t, parts %t; want %d, %q, %t, %t", r.Form, r.Names.Store, r.IsDelta(),
					r.InParts(), test.form, test.store, test.delta, test.parts)
			}
			if _, err := r.Sums(); test.sums != (err == nil) || err != nil && !errors.Is(err, release.ErrNotAppliance) {
				t.Errorf("sums: got %v, want some: %t", err, test.sums)
			}
			lock, err := r.Lock()
			if err != nil || lock.Name != "edge" {
				t.Errorf("lock: got %q, %v; want the one of edge", lock.Name, err)
			}
			id, err := r.ID()
			if err != nil || id.Lock == "" || (id.Store != "") != (test.sums && test.store != layout.StoreDir) {
				t.Errorf("ID: got %+v, %v; want both digests", id, err)
			}
			got, err := r.Files()
			if err != nil || (got != nil) != test.readable {
				t.Errorf("files: got %v, %v; want some: %t", got, err, test.readable)
			}
			if d, err := r.Delta(); err != nil || (d.Version != 0) != test.delta {
				t.Errorf("delta: got %+v, %v; want one: %t", d, err, test.delta)
			}
		})
	}
}

// A medium on a device, of which Stat gives no size, is one as in a file.
func TestDevice(t *testing.T) {
	fixtures.NeedRoot(t)
	s := newSamples(t)
	file := s.medium.medium(t)
	r := opened(t, fixtures.LoopDevice(t, file, "--read-only"), nil)
	store, err := r.Store()
	if err != nil || store == nil || store.Size != int64(len(s.medium[layout.MediumStore])) {
		t.Errorf("got the store %+v, %v; want one of %d bytes", store, err, len(s.medium[layout.MediumStore]))
	}
	if lock, err := r.Lock(); err != nil || lock.Name != "edge" {
		t.Errorf("got the lock of %q, %v; want that of edge", lock.Name, err)
	}
}

// The bytes of a store are the same in one file, in parts and on a medium.
func TestStoreBytes(t *testing.T) {
	s := newSamples(t)
	want := s.folder[layout.StoreFile]
	for title, name := range map[string]string{
		"folder": s.folder.folder(t), "parts": s.parts.folder(t), "medium": s.medium.medium(t),
	} {
		t.Run(title, func(t *testing.T) {
			f, err := opened(t, name, nil).StoreBytes()
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got, err := io.ReadAll(f); err != nil || string(got) != want || f.Size != int64(len(want)) {
				t.Errorf("got %d bytes of %d, %v; want %d", len(got), f.Size, err, len(want))
			}
		})
	}
}

// Whole has the files of a store in any form, also where Store has none.
func TestWhole(t *testing.T) {
	s := newSamples(t)
	folder := s.folder.folder(t)
	for title, test := range map[string]struct {
		name  string
		there bool
	}{
		"folder": {folder, true}, "parts": {s.parts.folder(t), true}, "medium": {s.medium.medium(t), true},
		"file": {filepath.Join(folder, layout.StoreFile), true},
		"lock": {filepath.Join(folder, layout.LockFile), false}, "dir": {s.dir.folder(t), false},
	} {
		t.Run(title, func(t *testing.T) {
			r := opened(t, test.name, nil)
			store, err := r.Whole()
			if err != nil || (store != nil) != test.there {
				t.Fatalf("got %+v, %v; want a store: %t", store, err, test.there)
			}
			if !test.there {
				return
			}
			files, err := store.Files()
			if err != nil {
				t.Fatal(err)
			}
			if text, err := fs.ReadFile(files, layout.OwnLock); err != nil || string(text) != lockText {
				t.Errorf("got %q, %v; want the lock", text, err)
			}
			if again, err := r.Whole(); again != store || err != nil {
				t.Errorf("got %+v, %v the second time, want the same store", again, err)
			}
		})
	}
	parts := s.parts.folder(t)
	if err := os.Remove(filepath.Join(parts, layout.PartName(layout.StoreFile, 1))); err != nil {
		t.Fatal(err)
	}
	if _, err := opened(t, parts, nil).Whole(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without the first part, got %v, want %v", err, fs.ErrNotExist)
	}
}

// A damaged release is opened, and what is damaged is an error when it is read.
func TestDamaged(t *testing.T) {
	s := newSamples(t)
	without := func(f files, name string) files {
		f = maps.Clone(f)
		delete(f, name)
		return f
	}
	sums := func(r *release.Release) error { _, err := r.Sums(); return err }
	id := func(r *release.Release) error { _, err := r.ID(); return err }
	lock := func(r *release.Release) error { _, err := r.Lock(); return err }
	delta := func(r *release.Release) error { _, err := r.Delta(); return err }
	bytes := func(r *release.Release) error { _, err := r.StoreBytes(); return err }
	provenance := func(r *release.Release) error { _, err := r.Provenance(); return err }
	for _, test := range []struct {
		title, name string
		read        func(*release.Release) error
		want        error
	}{
		{"an empty folder", files{}.folder(t), sums, release.ErrNotAppliance},
		{"no sums", without(s.folder, layout.SumsFile).folder(t), sums, release.ErrVerify},
		{"no sums on a medium", without(s.medium, layout.MediumSums).medium(t), sums, release.ErrNotAppliance},
		{"text as sums", s.folder.with(layout.SumsFile, "hello\n").folder(t), sums, release.ErrVerify},
		{"another lock", s.folder.with(layout.LockFile, lockText+" ").folder(t), id, release.ErrVerify},
		{"another lock on a medium", s.medium.with(layout.MediumLock, lockText+" ").medium(t), id, release.ErrVerify},
		{"text as lock", s.folder.with(layout.LockFile, "hello").folder(t), lock, pinset.ErrBadLock},
		{"a store in place of a lock", filepath.Join(s.folder.folder(t), layout.StoreFile), lock, release.ErrNotAppliance},
		{"no lock", without(s.folder, layout.LockFile).folder(t), lock, fs.ErrNotExist},
		{"no lock on a medium", without(s.medium, layout.MediumLock).medium(t), lock, iso9660.ErrNotFound},
		{"text as store", s.delta.with(layout.DeltaStoreFile, "hello").folder(t), delta, squashfs.ErrDamaged},
		{"text as thin store", s.thin.with(layout.ThinStoreFile, "hello").folder(t), delta, squashfs.ErrDamaged},
		{"text as store on a medium", s.medium.with(layout.MediumStore, "hello").medium(t), delta, squashfs.ErrDamaged},
		{"no store", without(s.folder, layout.StoreFile).folder(t), bytes, fs.ErrNotExist},
		{"no first part", without(s.parts, layout.PartName(layout.StoreFile, 1)).folder(t), bytes, fs.ErrNotExist},
		{"no provenance", without(s.folder, layout.ProvenanceFile).folder(t), provenance, fs.ErrNotExist},
	} {
		t.Run(test.title, func(t *testing.T) {
			if err := test.read(opened(t, test.name, nil)); !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}

// What a store lacks is known without reading it: of its contents, and of the hash tree behind them.
func TestShort(t *testing.T) {
	s := newSamples(t)
	tree := s.folder.folder(t)
	fixtures.AddTree(t, filepath.Join(tree, layout.StoreFile))
	whole, err := os.ReadFile(filepath.Join(tree, layout.StoreFile))
	if err != nil {
		t.Fatal(err)
	}
	treed := func(size int) string {
		return files{
			layout.StoreFile: string(whole[:size]), layout.RootHashFile(layout.StoreFile): "x\n", layout.LockFile: lockText,
		}.sum(layout.SumsFile).folder(t)
	}
	for _, test := range []struct{ title, name, want string }{
		{"whole", s.folder.folder(t), ""},
		{"a medium", s.medium.medium(t), ""},
		{"no contents", s.folder.with(layout.StoreFile, s.folder[layout.StoreFile][:100]).folder(t), "with 100 bytes of "},
		{"nothing", s.folder.with(layout.StoreFile, "").folder(t), "store.squashfs is empty: "},
		{"with a tree", treed(len(whole)), ""},
		{"half a tree", treed(len(whole) - 1), fmt.Sprintf("with %d bytes of %d: ", len(whole)-1, len(whole))},
		{"text", s.folder.with(layout.StoreFile, "hello").folder(t), ""},
		{"parts", s.parts.folder(t), ""},
		{"lock", filepath.Join(s.folder.folder(t), layout.LockFile), ""},
	} {
		got, err := opened(t, test.name, nil).Short()
		if err != nil || !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%s: got %q, %v; want %q", test.title, got, err, test.want)
		}
	}
}

// With keys, a release is opened only if its sums are signed, and what is read is compared with them.
func TestSigned(t *testing.T) {
	s := newSamples(t)
	secret, public := fixtures.Key(t)
	_, other := fixtures.Key(t)
	signer, err := signature.ReadSigner(secret, nil)
	if err != nil {
		t.Fatal(err)
	}
	signed := func(f files, sums, proof string) files {
		text, err := signer.Sign([]byte(f[sums]))
		if err != nil {
			t.Fatal(err)
		}
		return f.with(proof, string(text))
	}
	folder := signed(s.folder, layout.SumsFile, layout.SumsFile+layout.SignatureSuffix)
	medium := signed(s.medium, layout.MediumSums, layout.MediumSumsSignature)
	noSums := s.folder.with(layout.SumsFile, "hello\n")
	for _, test := range []struct {
		title, name, key string
		want             error // of Open
		lock             error
	}{
		{"folder", folder.folder(t), public, nil, nil},
		{"medium", medium.medium(t), public, nil, nil},
		{"another key", folder.folder(t), other, signature.ErrInvalid, nil},
		{"another key of a medium", medium.medium(t), other, signature.ErrInvalid, nil},
		{"unsigned", s.folder.folder(t), public, signature.ErrUnsigned, nil},
		{"unsigned medium", s.medium.medium(t), public, signature.ErrUnsigned, nil},
		// The signature is read before the sums are parsed, or this would be ErrVerify.
		{"text as sums", noSums.folder(t), public, signature.ErrUnsigned, nil},
		{"a lock alone", filepath.Join(folder.folder(t), layout.LockFile), public, release.ErrNotAppliance, nil},
		{"a mounted store", files{layout.OwnLock: lockText}.folder(t), public, release.ErrNotAppliance, nil},
		// The lock is compared before it is parsed, or this would be ErrBadLock.
		{"text as lock", folder.with(layout.LockFile, "hello").folder(t), public, nil, release.ErrVerify},
		{"text as lock on a medium", medium.with(layout.MediumLock, "hello").medium(t), public, nil, release.ErrVerify},
	} {
		t.Run(test.title, func(t *testing.T) {
			r, err := release.Open(test.name, keysIn(t, test.key))
			if !errors.Is(err, test.want) {
				t.Fatalf("got %v, want %v", err, test.want)
			}
			if err != nil {
				return
			}
			defer r.Close()
			if _, err := r.Lock(); !errors.Is(err, test.lock) {
				t.Errorf("lock: got %v, want %v", err, test.lock)
			}
		})
	}
	changed := opened(t, folder.with(layout.ProvenanceFile, `{"changed":1}`).folder(t), keysIn(t, public))
	if _, err := changed.Provenance(); !errors.Is(err, release.ErrVerify) {
		t.Errorf("changed provenance: got %v, want %v", err, release.ErrVerify)
	}
}

// keysIn reads a public key.
func keysIn(t *testing.T, name string) signature.Keys {
	t.Helper()
	keys, err := signature.ReadKeys(name)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// A document is read up to the limit of its caller.
func TestLimit(t *testing.T) {
	r := opened(t, newSamples(t).folder.folder(t), nil)
	size := int64(len(lockText))
	if text, err := r.Read(layout.LockFile, size); err != nil || string(text) != lockText {
		t.Errorf("got %q, %v; want the lock", text, err)
	}
	if _, err := r.Read(layout.LockFile, size-1); !errors.Is(err, release.ErrVerify) {
		t.Errorf("got %v, want %v", err, release.ErrVerify)
	}
}

// One Close closes the store, the folder of a store and the file of a medium.
func TestClose(t *testing.T) {
	s := newSamples(t)
	for title, name := range map[string]string{
		"folder": s.folder.folder(t), "store as a folder": s.dir.folder(t), "medium": s.medium.medium(t),
	} {
		t.Run(title, func(t *testing.T) {
			r, err := release.Open(name, nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.Files(); err != nil {
				t.Fatal(err)
			}
			if got := openBelow(t, name); len(got) != 1 {
				t.Errorf("got the open files %q, want one", got)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if got := openBelow(t, name); len(got) != 0 {
				t.Errorf("after Close: got the open files %q, want none", got)
			}
		})
	}
}

// openBelow lists what this process has open of a file or below a folder.
func openBelow(t *testing.T, name string) (open []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err == nil && (target == name || strings.HasPrefix(target, name+"/")) { // else it is the one of ReadDir
			open = append(open, target)
		}
	}
	slices.Sort(open)
	return open
}
