// Package cache keeps what was made of layers, so that it is made once.
//
// An entry is a pack (storage/squashfs) in a file of its own, under the digest of the
// layer's tar stream. Entries appear whole, by rename; whoever opened one may go on
// reading when it is removed. So builds may share a folder without a word to each
// other.
package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
)

// Key names an entry.
type Key struct {
	// DiffID is the digest of the layer's uncompressed tar stream.
	DiffID digest.Digest `json:"diffID"`
	// Form of the pack: what else its bytes depend on, a file name.
	Form string `json:"form"`
}

// Cache is a folder of packs. The zero value keeps nothing.
type Cache struct {
	dir string
}

// tag makes programs that back up a disk leave the folder out:
// https://bford.info/cachedir/.
const tag = "Signature: 8a477f597d28d172789f06886806bc55\n# pinbox keeps packed layers here; it may be removed at any time.\n"

// Open makes the folder if there is none. What is in it is trusted to be what this
// program wrote, so nobody else may write there.
func Open(dir string) (Cache, error) {
	if err := os.MkdirAll(filepath.Join(dir, "layers"), 0o700); err != nil {
		return Cache{}, err
	}
	_, err := atomicfile.Write(filepath.Join(dir, "CACHEDIR.TAG"), []byte(tag), 0o644)
	return Cache{dir: dir}, err
}

func (c Cache) path(k Key) string {
	return filepath.Join(c.dir, "layers", k.Form, k.DiffID.Encoded())
}

// Get opens an entry, if there is one, and notes that it was of use.
func (c Cache) Get(k Key) (*os.File, bool) {
	f, err := c.open(k)
	if err != nil {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // it only tells what is used least
	return f, true
}

// Size of an entry in bytes, if there is one.
func (c Cache) Size(k Key) (int64, bool) {
	if c.dir == "" {
		return 0, false
	}
	fi, err := os.Stat(c.path(k))
	if err != nil {
		return 0, false
	}
	return fi.Size(), true
}

func (c Cache) open(k Key) (*os.File, error) {
	if c.dir == "" {
		return nil, fs.ErrNotExist
	}
	return os.Open(c.path(k))
}

// Put makes an entry of what write writes, and opens it. Where nothing is kept, or
// another process is writing the same one, the file has no name; tmp is the folder
// for that.
func (c Cache) Put(k Key, tmp string, write func(io.Writer) error) (*os.File, error) {
	if c.dir == "" {
		return nameless(tmp, write)
	}
	if err := os.MkdirAll(filepath.Dir(c.path(k)), 0o700); err != nil {
		return nil, err
	}
	f, err := atomicfile.CreateLarge(c.path(k), 0o600)
	if errors.Is(err, atomicfile.ErrBusy) {
		return nameless(tmp, write)
	}
	if err != nil {
		return nil, err
	}
	defer f.Abort()
	if err := write(f); err != nil {
		return nil, err
	}
	open, err := os.Open(f.Name()) // it may be removed as soon as it is there
	if err != nil {
		return nil, err
	}
	if err := f.Commit(); err != nil {
		return nil, errors.Join(err, open.Close())
	}
	return open, nil
}

func nameless(tmp string, write func(io.Writer) error) (*os.File, error) {
	f, err := os.CreateTemp(tmp, ".layer-*")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(f.Name()), write(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Entry is a layer that is kept.
type Entry struct {
	Key
	// Size in bytes.
	Size int64 `json:"size"`
	// Used is when it was written or opened last.
	Used time.Time `json:"used"`
}

// Entries lists what is kept, what was used least recently first.
func (c Cache) Entries() ([]Entry, error) {
	var all []Entry
	err := c.walk(func(form, name string, fi fs.FileInfo) error {
		d := digest.NewDigestFromEncoded(digest.SHA256, name)
		if d.Validate() == nil {
			all = append(all, Entry{Key: Key{DiffID: d, Form: form}, Size: fi.Size(), Used: fi.ModTime()})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(a.Used.Compare(b.Used), strings.Compare(a.DiffID.String(), b.DiffID.String()), strings.Compare(a.Form, b.Form))
	})
	return all, err
}

// walk visits all files of all forms.
func (c Cache) walk(visit func(form, name string, fi fs.FileInfo) error) error {
	if c.dir == "" {
		return nil
	}
	forms, err := os.ReadDir(filepath.Join(c.dir, "layers"))
	if err != nil {
		return err
	}
	for _, form := range forms {
		files, err := os.ReadDir(filepath.Join(c.dir, "layers", form.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			fi, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // another process was faster
			}
			if err == nil {
				err = visit(form.Name(), f.Name(), fi)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// Remove removes an entry.
func (c Cache) Remove(k Key) error {
	if err := os.Remove(c.path(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Prune removes what was used least recently until limit bytes are left, and what
// killed processes left half-written. It returns what it removed.
func (c Cache) Prune(limit int64) (removed []Entry, err error) {
	if err := c.walk(func(form, name string, _ fs.FileInfo) error {
		if strings.HasPrefix(name, ".") {
			return removeAbandoned(filepath.Join(c.dir, "layers", form, name))
		}
		return nil
	}); err != nil {
		return nil, err
	}
	all, err := c.Entries()
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, e := range all {
		total += e.Size
	}
	for _, e := range all {
		if total <= limit {
			break
		}
		if err := c.Remove(e.Key); err != nil {
			return removed, err
		}
		total -= e.Size
		removed = append(removed, e)
	}
	return removed, nil
}

// removeAbandoned removes a file that nobody is writing: writers hold a lock.
func removeAbandoned(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil
	} else if err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
