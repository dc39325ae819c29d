package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/layout"
)

// maxSums bounds SHA256SUMS in bytes: that of a store that is a folder has a line for each file.
const maxSums = 1 << 30

// ReadSums reads those of an appliance's folder.
func ReadSums(dir string) (layout.Sums, error) {
	content, err := os.ReadFile(filepath.Join(dir, SumsFile))
	if err != nil {
		kind := ErrNotAppliance
		if _, err := os.Stat(filepath.Join(dir, LockFile)); err == nil {
			kind = ErrVerify // it was one
		}
		return nil, fmt.Errorf("%s: %w: %w", dir, kind, err)
	}
	return ParseSums(content, dir, SumsFile)
}

// ParseSums reads a file of sums; where and file are for errors.
func ParseSums(content []byte, where, file string) (layout.Sums, error) {
	sums, err := layout.ReadSums(bytes.NewReader(content), maxSums)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s: %w", where, ErrVerify, file, err)
	}
	return sums, nil
}

// IsDelta reports whether the sums are those of a delta's folder.
func IsDelta(sums layout.Sums) bool { return sums[DeltaFile]+sums[DeltaStoreFile] != "" }

// SumTree gives the SHA-256 of every file below dir but the sums themselves; those of
// some may be known. store is the name of the store there: of a folder only regular files count.
func SumTree(ctx context.Context, dir, store string, sums layout.Sums, hooks progress.Hooks) error {
	var names []string
	var bytes int64
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil || name == SumsFile || sums[name] != "" {
			return err
		}
		if strings.HasPrefix(name, store+"/") && !d.Type().IsRegular() { // a fifo would not end
			return nil
		}
		names = append(names, filepath.ToSlash(name))
		fi, err := d.Info()
		if err == nil {
			bytes += fi.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	hooks.Begin("hash files", bytes)
	for _, name := range names {
		if sums[name], err = sumOf(ctx, filepath.Join(dir, name), hooks); err != nil {
			return err
		}
	}
	return nil
}

// SumFile gives the SHA-256 of one file.
func SumFile(ctx context.Context, name string, hooks progress.Hooks) (string, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	hooks.Begin("hash "+filepath.Base(name), fi.Size())
	return sumOf(ctx, name, hooks)
}

func sumOf(ctx context.Context, name string, hooks progress.Hooks) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, _, err := SumReader(ctx, f, hooks)
	return sum, err
}

// buffers are made once: a store that is a folder has many small files.
var buffers = sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}

// SumReader also gives the number of bytes.
func SumReader(ctx context.Context, r io.Reader, hooks progress.Hooks) (sum string, size int64, err error) {
	h := sha256.New()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	size, err = io.CopyBuffer(h, reader{ctx, r, hooks.Done}, *buf)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// reader ends with its context.
type reader struct {
	ctx  context.Context
	r    io.Reader
	done func(int)
}

func (p reader) Read(b []byte) (int, error) {
	if err := p.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := p.r.Read(b)
	if p.done != nil {
		p.done(n)
	}
	return n, err
}

// HashWriter writes and hashes at the same time. It ends with its context.
type HashWriter struct {
	ctx  context.Context
	w    io.Writer
	sum  hash.Hash
	size int64 // bytes
	done func(int)
}

// NewHashWriter writes to w; done is called with the number of bytes of each part.
func NewHashWriter(ctx context.Context, w io.Writer, done func(int)) *HashWriter {
	return &HashWriter{ctx: ctx, w: w, sum: sha256.New(), done: done}
}

// Size is the number of bytes written.
func (s *HashWriter) Size() int64 { return s.size }

// Sum is the SHA-256 of them, in hexadecimal form.
func (s *HashWriter) Sum() string { return hex.EncodeToString(s.sum.Sum(nil)) }

func (s *HashWriter) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	var hashing sync.WaitGroup
	hashing.Go(func() { s.sum.Write(p) })
	n, err := s.w.Write(p)
	hashing.Wait()
	s.size += int64(n)
	s.done(n)
	return n, err
}
