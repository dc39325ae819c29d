package cache

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/filelock"
)

// Key names an entry.
type Key struct {
	// Digest of what was packed: of a layer its DiffID.
	Digest digest.Digest `json:"digest"`
	// Blob is the digest of the blob that it came out of, "" if it is no other: an
	// entry also says that the two belong together.
	Blob digest.Digest `json:"blob,omitempty"`
	// Encoding of the pack: what else its bytes depend on, a file name.
	Encoding string `json:"encoding"`
}

// Cache is a folder of packs. The zero value keeps nothing.
type Cache struct {
	dir string
}

// tag makes programs that back up a disk leave the folder out:
// https://bford.info/cachedir/.
const tag = "Signature: 8a477f597d28d172789f06886806bc55\n# pinbox keeps packed layers here; it may be " +
	"removed at any time.\n"

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
	name := k.Digest.Encoded()
	if k.Blob != "" {
		name += "-" + k.Blob.Encoded()
	}
	return filepath.Join(c.dir, "layers", k.Encoding, name)
}

// parse is the way back from a file.
func parse(encoding, name string) (Key, bool) {
	name, blob, of := strings.Cut(name, "-")
	k := Key{Digest: digest.NewDigestFromEncoded(digest.SHA256, name), Encoding: encoding}
	if of {
		k.Blob = digest.NewDigestFromEncoded(digest.SHA256, blob)
	}
	return k, k.Digest.Validate() == nil && (!of || k.Blob.Validate() == nil)
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
		return unnamed(tmp, write)
	}
	if err := os.MkdirAll(filepath.Dir(c.path(k)), 0o700); err != nil {
		return nil, err
	}
	f, err := atomicfile.CreateLarge(c.path(k), 0o600)
	if errors.Is(err, atomicfile.ErrBusy) {
		return unnamed(tmp, write)
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

func unnamed(tmp string, write func(io.Writer) error) (*os.File, error) {
	f, err := atomicfile.Unnamed(tmp)
	if err != nil {
		return nil, err
	}
	if err := write(f); err != nil {
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
	err := c.walk(func(encoding, name string, fi fs.FileInfo) error {
		if k, ok := parse(encoding, name); ok {
			all = append(all, Entry{Key: k, Size: fi.Size(), Used: fi.ModTime()})
		}
		return nil
	})
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(a.Used.Compare(b.Used), strings.Compare(a.Digest.String(), b.Digest.String()),
			strings.Compare(a.Encoding, b.Encoding))
	})
	return all, err
}

// walk visits all files of all encodings.
func (c Cache) walk(visit func(encoding, name string, fi fs.FileInfo) error) error {
	if c.dir == "" {
		return nil
	}
	encodings, err := os.ReadDir(filepath.Join(c.dir, "layers"))
	if err != nil {
		return err
	}
	for _, encoding := range encodings {
		files, err := os.ReadDir(filepath.Join(c.dir, "layers", encoding.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			fi, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // another process was faster
			}
			if err == nil {
				err = visit(encoding.Name(), f.Name(), fi)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// RemoveFile removes the entry that a file is, which Get or Put gave, and says whether it
// is one.
func (c Cache) RemoveFile(f *os.File) (bool, error) {
	if c.dir == "" || filepath.Dir(filepath.Dir(f.Name())) != filepath.Join(c.dir, "layers") {
		return false, nil
	}
	name := filepath.Base(f.Name())
	if strings.HasPrefix(name, ".") { // it was opened before it had its name
		name = strings.TrimSuffix(name[1:], ".pinbox-partial")
	}
	k, ok := parse(filepath.Base(filepath.Dir(f.Name())), name)
	return ok, c.Remove(k)
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
	if err := c.walk(func(encoding, name string, _ fs.FileInfo) error {
		if strings.HasPrefix(name, ".") {
			return removeUnused(filepath.Join(c.dir, "layers", encoding, name))
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
		remove := c.Remove
		if e.Encoding == partialEncoding { // another process may be at it
			remove = func(k Key) error { return removeUnused(c.path(k)) }
		}
		if err := remove(e.Key); err != nil {
			return removed, err
		}
		total -= e.Size
		removed = append(removed, e)
	}
	return removed, nil
}

// removeUnused removes a file that nobody is writing: writers hold a lock.
func removeUnused(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := filelock.Try(f); errors.Is(err, filelock.ErrLocked) {
		return nil
	} else if err != nil {
		return err
	}
	if !stands(f, path) { // its writer has given it its name in the meantime
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// stands says whether an open file is the one at a path.
func stands(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(path)
	return err == nil && os.SameFile(open, there)
}
