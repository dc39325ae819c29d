package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Why a store is not fetched.
var (
	ErrName = fault.New(fault.Usage, "not the name of a store on a server",
		"write it as https://HOST/PATH/delta.thin or https://HOST/FOLDER/")
	ErrPlain = fault.New(fault.Usage, "HTTP without TLS says nothing about who has answered",
		"use HTTPS, or give the --digest of the store")
	ErrChanged = fault.New(fault.Damaged, "what the server gives is not what was asked for",
		"compare what is on the server with the original, and copy it again")
)

// Options say where stores may come from, and how.
type Options struct {
	// Keys of the node: with any, a store needs a signature by one of them.
	Keys signature.Keys
	// Digest of the store; "" takes it from the sums.
	Digest digest.Digest
	// Stall, Least and Pause are those of fetch.Options.
	Stall time.Duration
	Least int64
	Pause time.Duration
	// Done is called with the bytes on the disk, of all, and Note with why an attempt failed; nil is fine.
	Done func(done, all int64)
	Note func(error)
}

// Store is one that was found.
type Store struct {
	// Origin is its URL, Name that of its file.
	Origin, Name string
	Digest       digest.Digest
	Size         int64 // bytes
	signature    []byte
}

// Is reports whether a store is named that is not on this machine.
func Is(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// Find asks for everything but the store itself. A store that could not be attached for its signature is an error here,
// before it is fetched.
func Find(ctx context.Context, source string, o Options) (Store, error) {
	s, err := onServer(ctx, source, o)
	if err == nil {
		err = s.checkSignature(o.Keys)
	}
	return s, err
}

// checkSignature checks the signature of the store that has the digest.
func (s Store) checkSignature(keys signature.Keys) error {
	if keys.IsEmpty() {
		return nil
	}
	err := keys.Verify(layout.StoreSums(s.Digest.Encoded()), s.signature)
	switch {
	case errors.Is(err, signature.ErrUnsigned):
		return fmt.Errorf("%s: %w", s.Origin, stores.ErrUnsigned)
	case err != nil:
		return fmt.Errorf("%s: %w: %w", s.Origin, stores.ErrSignature, err)
	}
	return nil
}

// Fetch brings the store and its signature to a folder, and returns the path of the store. What is there of an earlier
// attempt is not fetched again. The file has the size and the digest of s.
func (s Store) Fetch(ctx context.Context, dir string, o Options) (file string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(dir, s.Name)
	if s.signature != nil {
		if _, err := atomicfile.Write(file+layout.SignatureSuffix, s.signature, 0o600); err != nil {
			return "", err
		}
	}
	_, err = fetch.Store(ctx, fetch.Options{
		URL: s.Origin, File: file, Size: s.Size, Digest: s.Digest, Stall: o.Stall, Least: o.Least, Pause: o.Pause,
		Done: o.Done, Note: o.Note,
	})
	if errors.Is(err, fetch.ErrDigest) {
		err = fmt.Errorf("%s: %w: another digest than %s", s.Origin, ErrChanged, s.Digest)
	}
	return file, err
}
