package fetch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Is reports whether a store is named that is not on this machine.
func Is(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// Find asks a server for everything but the store itself, which is a file, or in a folder if the path ends with a
// slash. A store that could not be attached for its signature is an error here, before it is fetched.
func Find(ctx context.Context, source string, o Options) (s Store, err error) {
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "":
		return s, fmt.Errorf("%q: %w", source, ErrName)
	case u.User != nil: // messages and logs have the URL
		return s, fmt.Errorf("%s: %w: it has a password", u.Redacted(), ErrName)
	case u.Scheme == "http" && o.Digest == "" && o.Keys.IsEmpty():
		return s, fmt.Errorf("%s: %w", source, ErrPlain)
	}
	c := newClient(o, false)
	s = Store{Origin: u.String(), Name: path.Base(u.Path), Digest: o.Digest}
	dir, names, missing := u.JoinPath(".."), []string{s.Name}, stores.ErrNoDigest
	folder := strings.HasSuffix(u.Path, "/") || u.Path == ""
	if folder {
		dir, names, missing = u, layout.AttachableStores(), stores.ErrNoStore
	}
	if strings.HasPrefix(s.Name, ".") {
		return s, fmt.Errorf("%q: %w", source, ErrName)
	}
	if folder || s.Digest == "" {
		name, listed, err := c.findSum(ctx, dir, names, missing)
		if err != nil {
			return s, err
		}
		s.Name, s.Digest = name, cmp.Or(o.Digest, listed)
	}
	if folder {
		s.Origin = dir.JoinPath(s.Name).String()
	}
	s.signature, err = c.text(ctx, dir.JoinPath(s.Name+layout.SignatureSuffix).String(), signature.MaxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s, err
	}
	s.Size, err = c.size(ctx, s.Origin)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, fmt.Errorf("%w: %w", stores.ErrNoStore, err)
	case err != nil || o.Keys.IsEmpty():
		return s, err
	}
	err = o.Keys.Verify(layout.StoreSums(s.Digest.Encoded()), s.signature)
	switch {
	case errors.Is(err, signature.ErrUnsigned):
		err = fmt.Errorf("%s: %w", s.Origin, stores.ErrUnsigned)
	case err != nil:
		err = fmt.Errorf("%s: %w: %w", s.Origin, stores.ErrSignature, err)
	}
	return s, err
}

// findSum returns the first of names that the sums in a folder list, and its digest; the error is missing if they list
// none.
func (c client) findSum(
	ctx context.Context, dir *url.URL, names []string, missing error,
) (name string, sum digest.Digest, err error) {
	var why error
	for _, file := range []string{layout.SumsFile, layout.MediumSums} {
		text, err := c.text(ctx, dir.JoinPath(file).String(), layout.MaxSums)
		if errors.Is(err, fs.ErrNotExist) {
			why = cmp.Or(why, err)
			continue
		}
		if err != nil {
			return "", "", err
		}
		for _, name := range names {
			sum, err := layout.FindSum(bytes.NewReader(text), name)
			if err != nil {
				return "", "", fmt.Errorf("%s: %w: %w", dir.JoinPath(file), stores.ErrNoDigest, err)
			}
			if sum != "" {
				return name, sum, nil
			}
		}
		why = fmt.Errorf("%s lists none", file)
	}
	return "", "", fmt.Errorf("%s: %w: %w", dir, missing, why)
}
