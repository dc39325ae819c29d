package release

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/signature"
)

// Document is an open file of a release.
type Document struct {
	io.ReadCloser
	Size int64 // in bytes
}

// IsMissing reports whether an error says that a release does not have a document.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, iso9660.ErrNotFound)
}

// Open opens a document, and compares it with nothing.
func (r *Release) Open(name string) (Document, error) {
	if r.Form == Medium {
		f, err := r.Image.Find(path.Join(r.dir, name))
		return Document{io.NopCloser(f.Reader()), f.Size}, err
	}
	f, err := input.Open(filepath.Join(r.dir, name))
	if err != nil {
		return Document{}, err
	}
	fi, err := f.Stat()
	if err != nil {
		return Document{}, errors.Join(err, f.Close())
	}
	return Document{f, fi.Size()}, nil
}

// Read reads a document of at most max bytes.
func (r *Release) Read(name string, max int64) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(text)) > max {
		err = fmt.Errorf("%s: %w: it has more than %d KiB", name, ErrVerify, max>>10)
	}
	if err == nil && r.signed && r.sums[name] != digest.FromBytes(text).Encoded() {
		err = fmt.Errorf("%s: %w: %s is not the one of the sums", r.Name, ErrVerify, name)
	}
	return text, err
}

// Provenance reads the statement about the build.
func (r *Release) Provenance() ([]byte, error) {
	return r.Read(r.Names.Provenance, layout.MaxStoreBytes)
}

// SignatureFile returns the name of the detached signature of a document.
func (r *Release) SignatureFile(name string) string {
	switch {
	case r.Form != Medium:
		return name + layout.SignatureSuffix
	case name == layout.MediumStore:
		return layout.MediumSignature
	case name == layout.MediumSums:
		return layout.MediumSumsSignature
	}
	return ""
}

// Signature returns the detached signature of a document; nil if there is none. It was not verified.
func (r *Release) Signature(name string) ([]byte, error) {
	return signature.ReadBeside(name, func(string) ([]byte, error) {
		f, err := r.Open(r.SignatureFile(name))
		if errors.Is(err, iso9660.ErrNotFound) {
			err = fs.ErrNotExist
		}
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, signature.MaxSize+1))
	})
}

// ID returns the digests of the lock, which it reads, and of the store's file, as the sums have it; "" if they have
// none. The error is ErrVerify if the sums list another lock.
func (r *Release) ID() (id pinset.Base, err error) {
	f, err := r.openLock()
	if err != nil {
		return id, err
	}
	defer f.Close()
	if id.Lock, err = digest.FromReader(f); err != nil {
		return id, fmt.Errorf("%s: %w", r.lockName(), err)
	}
	if want := r.sums[r.Names.Lock]; (want != "" || r.signed) && id.Lock.Encoded() != want {
		return id, fmt.Errorf("%s: %w: the lock has SHA-256 %s, want %s", r.lockName(), ErrVerify, id.Lock.Encoded(), want)
	}
	if store := r.sums[r.Names.Store]; store != "" {
		id.Store = digest.NewDigestFromEncoded(digest.SHA256, store)
	}
	r.lock = id.Lock
	return id, nil
}

// Lock reads the lock. After ID, and with keys, it is the one of the sums: a lock of 40 MB is read twice rather than
// held, and verified before it is parsed.
func (r *Release) Lock() (lock pinset.Lock, err error) {
	if r.signed && r.lock == "" {
		if _, err := r.ID(); err != nil {
			return lock, err
		}
	}
	f, err := r.openLock()
	if err != nil {
		return lock, err
	}
	defer f.Close()
	got := digest.SHA256.Digester()
	text := io.TeeReader(f, got.Hash())
	if lock, err = pinset.DecodeLock(text); err == nil && r.lock != "" {
		if _, err = io.Copy(io.Discard, text); err == nil && got.Digest() != r.lock {
			err = fmt.Errorf("%w: it was changed while it was read", ErrVerify)
		}
	}
	if err != nil {
		return pinset.Lock{}, fmt.Errorf("%s: %w", r.lockName(), err)
	}
	return lock, nil
}

// lockName is the name of the lock in errors.
func (r *Release) lockName() string {
	if r.Form == Medium {
		return r.Name
	}
	return filepath.Join(r.dir, r.Names.Lock)
}

// openLock opens the lock. A file of which nothing else is known may be a store, which is too large to be read as
// a lock.
func (r *Release) openLock() (Document, error) {
	f, err := r.Open(r.Names.Lock)
	if err != nil {
		if r.Form == Medium {
			err = fmt.Errorf("%s: %w", r.Name, err)
		}
		return f, err
	}
	if r.Form != LockOnly {
		return f, nil
	}
	text := bufio.NewReader(f)
	start, err := text.Peek(64)
	if err != nil && !errors.Is(err, io.EOF) {
		return Document{}, errors.Join(fmt.Errorf("%s: %w", r.Name, err), f.Close())
	}
	if !bytes.HasPrefix(bytes.TrimSpace(start), []byte("{")) {
		return Document{}, errors.Join(fmt.Errorf("%s: %w, and not a lock", r.Name, ErrNotAppliance), f.Close())
	}
	f.ReadCloser = struct {
		io.Reader
		io.Closer
	}{text, f.ReadCloser}
	return f, nil
}
