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
	// Digest is the DiffID of the layer.
	Digest digest.Digest `json:"digest"`
	// Blob is the digest of the blob that was unpacked, "" if nothing was. An entry proves that the
	// blob has the DiffID.
	Blob digest.Digest `json:"blob,omitempty"`
	// Encoding of the pack, as squashfs.Compressor names it. It is a file name.
	Encoding string `json:"encoding"`
}

// Cache is a folder of packs. The zero value has no entries, and Put adds none.
type Cache struct {
	dir string
}

// tag makes programs that back up a disk leave the folder out:
// https://bford.info/cachedir/.
const tag = "Signature: 8a477f597d28d172789f06886806bc55\n# pinbox keeps packed layers here; it may be " +
	"removed at any time.\n"

// Open opens the cache in a folder, which it creates if necessary. Who can write there decides what
// nodes run, so Open refuses a folder that others can write to with ErrWritable.
func Open(dir string) (Cache, error) {
	layers := filepath.Join(dir, "layers")
	if err := os.MkdirAll(layers, 0o700); err != nil {
		return Cache{}, err
	}
	if err := checkOwners(dir, layers); err != nil {
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

// parse is the inverse of path.
func parse(encoding, name string) (Key, bool) {
	name, blob, hasBlob := strings.Cut(name, "-")
	k := Key{Digest: ofLength(name), Blob: ofLength(blob), Encoding: encoding}
	return k, k.Digest.Validate() == nil && (!hasBlob || k.Blob.Validate() == nil)
}

// ofLength returns the digest of these hexadecimal digits, whose algorithm follows from their number; or "".
func ofLength(digits string) digest.Digest {
	for _, a := range []digest.Algorithm{digest.SHA256, digest.SHA384, digest.SHA512} {
		if len(digits) == 2*a.Size() {
			return digest.NewDigestFromEncoded(a, digits)
		}
	}
	return ""
}

// Get opens an entry, if there is one, and updates the time of its last use.
func (c Cache) Get(k Key) (*os.File, bool) {
	f, err := c.open(k)
	if err != nil {
		return nil, false
	}
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // without it, Prune removes the entry earlier
	return f, true
}

// Size returns the size of an entry in bytes, if there is one.
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

// Put makes an entry of what write writes, and opens it. The zero Cache, and one to which another
// process is writing the same entry, returns an unnamed file in the folder tmp instead.
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
	open, err := os.Open(f.Name()) // before Rename: another process can remove the entry right after it
	if err != nil {
		return nil, err
	}
	if err := f.Rename(); err != nil {
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

// Entry describes an entry of the cache.
type Entry struct {
	Key
	// Size in bytes.
	Size int64 `json:"size"`
	// Used is when the entry was last written or opened.
	Used time.Time `json:"used"`
}

// Entries lists the entries, the least recently used first.
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
				continue // another process removed it
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

// RemoveFile removes the entry of a file that Get or Put returned, and reports whether the file
// was an entry.
func (c Cache) RemoveFile(f *os.File) (bool, error) {
	if c.dir == "" || filepath.Dir(filepath.Dir(f.Name())) != filepath.Join(c.dir, "layers") {
		return false, nil
	}
	name := filepath.Base(f.Name())
	if strings.HasPrefix(name, ".") { // Put opened it under its temporary name
		name = strings.TrimSuffix(name[1:], ".pinbox-partial")
	}
	k, ok := parse(filepath.Base(filepath.Dir(f.Name())), name)
	return ok, c.Remove(k)
}

// Remove removes an entry, if there is one.
func (c Cache) Remove(k Key) error {
	if err := os.Remove(c.path(k)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Prune removes the least recently used entries until at most limit bytes are left, and incomplete
// files that killed processes left. It returns the entries that it removed.
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
		if e.Encoding == partialEncoding { // another process may be writing it
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

// removeUnused removes a file unless a process is writing it: writers hold a lock.
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
	if !isAt(f, path) { // its writer has renamed it since
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isAt reports whether an open file is the one at a path.
func isAt(f *os.File, path string) bool {
	open, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Lstat(path)
	return err == nil && os.SameFile(open, named)
}
