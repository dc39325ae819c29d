package stores

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"golang.org/x/sys/unix"

	"github.com/pinbox/pinbox/runtime/transfer"
	"github.com/pinbox/pinbox/storage/layout"
)

// Why a store in parts, of `pinbox medium --split`, cannot be attached.
var (
	ErrPart    = errors.New("a part of the store is missing or damaged")
	ErrInParts = errors.New("the store is in parts, so it cannot be used in place")
)

// part of a store: a file with the bytes that follow those of the part before it.
type part struct {
	path string
	size int64
	sum  string // SHA-256, in hexadecimal
}

// maxEntries is how many entries of a folder are read to find a store: those of a stick with other files, of
// which a hostile one could list any number.
const maxEntries = 10_000

// storesIn lists the stores in a folder: the files, and those in parts by the name without the number. None in a
// folder that does not exist.
func storesIn(dir string) ([]string, error) {
	names, err := transfer.Within(transfer.ReadDeadline, dir, func() ([]string, error) {
		f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
		if err != nil {
			return nil, ignoreNotExist(err)
		}
		defer f.Close()
		names, err := f.Readdirnames(maxEntries)
		if errors.Is(err, io.EOF) { // an empty folder
			err = nil
		}
		return names, err
	}, nil)
	if len(names) == maxEntries {
		return nil, fmt.Errorf("%s: %w: it has more than %d files; name that of the store", dir, ErrNoStore, maxEntries-1)
	}
	var found []string
	for _, name := range names {
		store, _ := layout.CutPart(name)
		suffix := filepath.Ext(store)
		known := suffix == layout.AttachedSuffix || suffix == filepath.Ext(layout.ThinStoreFile)
		if known && !strings.HasPrefix(store, ".") {
			found = append(found, store)
		}
	}
	slices.Sort(found)
	return slices.Compact(found), err
}

// inParts takes the store in the parts that SHA256SUMS next to them lists, and reads its signature. Nothing of
// that is trusted: the digest or the signature of the whole store counts.
func (s *source) inParts(name string) (err error) {
	if name, err = filepath.Abs(name); err != nil {
		return err
	}
	sums, err := readSums(filepath.Join(filepath.Dir(name), layout.SumsFile))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", name, ErrNoDigest, err)
	}
	base := filepath.Base(name)
	s.Extent = Extent{Path: name}
	for n := 1; n <= layout.MaxParts && sums[layout.PartName(base, n)] != ""; n++ {
		p := part{path: layout.PartName(name, n), sum: sums[layout.PartName(base, n)]}
		f, size, err := openFile(p.path)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrPart, err)
		}
		_ = f.Close() // nothing was written
		if size == 0 || size > math.MaxInt64/layout.MaxParts {
			return fmt.Errorf("%w: %s has %d bytes", ErrPart, p.path, size)
		}
		p.size = size
		s.parts = append(s.parts, p)
		s.Size += size
	}
	if len(s.parts) == 0 {
		return fmt.Errorf("%s: %w: %s lists no parts of it", name, ErrNoDigest, layout.SumsFile)
	}
	if err := equalSizes(s.parts); err != nil {
		return err
	}
	if s.id == "" && sums[base] != "" {
		s.id = digest.NewDigestFromEncoded(digest.SHA256, sums[base])
	}
	s.signature, err = readSignature(s.keys, name)
	return err
}

// equalSizes finds a part that was cut off, before all others are copied: all but the last are of one size.
func equalSizes(parts []part) error {
	want := int64(0)
	for _, p := range parts {
		want = max(want, p.size)
	}
	for _, p := range parts[:len(parts)-1] {
		if p.size != want {
			return fmt.Errorf("%w: %s has %d bytes, and another part %d", ErrPart, p.path, p.size, want)
		}
	}
	return nil
}

// readSums reads a file of sums; none if it does not exist.
func readSums(name string) (layout.Sums, error) {
	f, size, err := openFile(name)
	if err != nil {
		return nil, ignoreNotExist(err)
	}
	defer f.Close()
	return layout.ReadSums(patient(f, size), layout.MaxSums)
}

// hasParts reports whether a file is missing, and there are parts of it.
func hasParts(name string) bool {
	if _, err := stat(name); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	sums, err := readSums(filepath.Join(filepath.Dir(name), layout.SumsFile))
	return err == nil && sums[layout.PartName(filepath.Base(name), 1)] != ""
}

// joined reads the parts of a store as one stream, and compares each with its sum.
type joined struct {
	parts []part // that were not read to the end
	all   []part
	file  *os.File // of the first of parts; nil if it is not open
	in    *io.SectionReader
	left  int64
	sum   hash.Hash
}

func (j *joined) Read(to []byte) (int, error) {
	for j.file == nil {
		if len(j.parts) == 0 {
			return 0, io.EOF
		}
		if err := j.open(); err != nil {
			return 0, err
		}
	}
	n, err := j.in.Read(to)
	j.sum.Write(to[:n])
	if j.left -= int64(n); j.left == 0 {
		err = j.next()
	} else if err != nil {
		err = fmt.Errorf("%w: %s: %w", ErrPart, j.parts[0].path, err)
	}
	if err != nil { // not the bytes as well: who has enough of them would not look at the error
		return 0, err
	}
	return n, nil
}

// open opens the first part.
func (j *joined) open() error {
	p := j.parts[0]
	f, err := open(p.path, os.O_RDONLY|unix.O_NONBLOCK)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPart, err)
	}
	_ = unix.Fadvise(int(f.Fd()), 0, p.size, unix.FADV_SEQUENTIAL)
	j.file, j.left, j.sum = f, p.size, sha256.New()
	j.in = io.NewSectionReader(transfer.WithDeadline(f, transfer.ReadDeadline), 0, p.size)
	return nil
}

// next compares the part that was read with its sum, and goes to the next one.
func (j *joined) next() error {
	p := j.parts[0]
	j.parts = j.parts[1:]
	got := hex.EncodeToString(j.sum.Sum(nil))
	if err := j.Close(); err != nil {
		return err
	}
	if got == p.sum {
		return nil
	}
	for _, other := range j.all {
		if other.sum == got {
			return fmt.Errorf("%w: %s has the content of %s", ErrPart, p.path, filepath.Base(other.path))
		}
	}
	return fmt.Errorf("%w: %s has SHA-256 %s, not %s", ErrPart, p.path, got, p.sum)
}

// Close closes the part that is open.
func (j *joined) Close() error {
	if j.file == nil {
		return nil
	}
	f := j.file
	j.file = nil
	return f.Close()
}
