package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fanout"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// SumTree adds to sums the SHA-256 of every file below dir, except SHA256SUMS and files that are in sums
// already. store is the store's name; if it is a folder, only its regular files are hashed.
func SumTree(ctx context.Context, dir, store string, sums layout.Sums, hooks progress.Hooks) error {
	var names []string
	var bytes int64
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, p)
		if err != nil || name == layout.SumsFile || sums[name] != "" || isRemoved(d.Name()) {
			return err
		}
		if strings.HasPrefix(name, store+"/") && !d.Type().IsRegular() { // reading a FIFO would block
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

// isRemoved reports whether a file was removed while it is open: FUSE (lib/fuse.c in libfuse, hidden_name) and NFS
// (fs/nfs/unlink.c, nfs_sillyrename) keep it under such a name until it is closed.
func isRemoved(name string) bool {
	return strings.HasPrefix(name, ".fuse_hidden") || strings.HasPrefix(name, ".nfs")
}

// SumFile returns the SHA-256 of one file.
func SumFile(ctx context.Context, name string, hooks progress.Hooks) (string, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	hooks.Begin("hash "+filepath.Base(name), fi.Size())
	return sumOf(ctx, name, hooks)
}

func sumOf(ctx context.Context, name string, hooks progress.Hooks) (string, error) {
	f, err := input.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum, _, err := SumReader(ctx, f, hooks)
	return sum, err
}

// buffers are reused: a store that is a folder has many small files.
var buffers = sync.Pool{New: func() any { b := make([]byte, 1<<20); return &b }}

// SumReader returns the SHA-256 of the content and its size in bytes.
func SumReader(ctx context.Context, r io.Reader, hooks progress.Hooks) (sum string, size int64, err error) {
	h := sha256.New()
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	size, err = io.CopyBuffer(h, reader{ctx, r, hooks.Done}, *buf)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// reader fails when its context is canceled.
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

// HashWriter writes and hashes in parallel. It fails when its context is canceled.
type HashWriter struct {
	ctx  context.Context
	to   io.Writer // what it was made for, and sum
	sum  hash.Hash
	size int64 // bytes
	done func(int)
}

// NewHashWriter returns a HashWriter for w. done is called with the number of bytes of each write.
func NewHashWriter(ctx context.Context, w io.Writer, done func(int)) *HashWriter {
	sum := sha256.New()
	return &HashWriter{ctx: ctx, to: fanout.Writer(w, sum), sum: sum, done: done}
}

// Size returns the number of bytes written.
func (s *HashWriter) Size() int64 { return s.size }

// Sum returns the SHA-256 of the bytes written, in hexadecimal.
func (s *HashWriter) Sum() string { return hex.EncodeToString(s.sum.Sum(nil)) }

func (s *HashWriter) Write(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.to.Write(p)
	s.size += int64(n)
	s.done(n)
	return n, err
}

// signing makes the signatures of a folder or of a medium. The zero value makes none.
type signing struct {
	signer signature.Signer
	// store is the signature of the store; nil if it has none.
	store []byte
}

// SignWith sets the signer of the sums, and signs the store unless it is a folder. It comes before WriteISO,
// since the ISO gets the signatures too.
func (s *Stage) SignWith(signer signature.Signer, store Store) (err error) {
	s.signing.signer = signer
	if !signer.IsZero() && store.Sum != "" {
		s.signing.store, err = signer.Sign(layout.StoreSums(store.Sum))
	}
	return err
}

// sums returns the signature of a file of sums; nil if it gets none.
func (s signing) sums(text []byte) ([]byte, error) {
	if s.signer.IsZero() {
		return nil, nil
	}
	return s.signer.Sign(text)
}

// write writes the signatures next to the files of a folder.
func (s signing) write(dir, store string, sums []byte) error {
	signature, err := s.sums(sums)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{store: s.store, layout.SumsFile: signature} {
		if content == nil {
			continue
		}
		if _, err := atomicfile.Write(filepath.Join(dir, name+layout.SignatureSuffix), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
