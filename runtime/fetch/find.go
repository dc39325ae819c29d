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
	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// Is reports whether a store is named that is not on this machine.
func Is(source string) bool {
	return strings.HasPrefix(source, "https://") || strings.HasPrefix(source, "http://")
}

// Find asks servers for everything but the store itself, which is a file, or in a folder if the path ends with a
// slash: the first server that has all decides, and the others are mirrors of the file. A store that could not be
// attached for its signature is an error here, before it is fetched.
func Find(ctx context.Context, sources []string, o Options) (s Store, err error) {
	places := make([]*url.URL, len(sources))
	for i, source := range sources {
		if places[i], err = parse(source, o); err != nil {
			return s, err
		}
	}
	var failed []error
	for i, u := range places {
		how := o
		if i < len(places)-1 { // the next one may have it now
			how.most = download.Attempts
		}
		if s, err = find(ctx, u, how); err == nil {
			break
		}
		if failed = append(failed, err); ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return s, errors.Join(failed...)
	}
	for _, u := range places {
		if isFolder(u) {
			u = u.JoinPath(s.Name)
		}
		if mirror := u.String(); mirror != s.Origin {
			s.Mirrors = append(s.Mirrors, mirror)
		}
	}
	return s, nil
}

// parse reads the URL of a store.
func parse(source string, o Options) (*url.URL, error) {
	u, err := url.Parse(source)
	switch {
	case err != nil || !Is(source) || u.Host == "" || u.Fragment != "",
		!isFolder(u) && strings.HasPrefix(path.Base(u.Path), "."):
		return nil, fmt.Errorf("%q: %w", source, ErrName)
	case u.User != nil: // messages and logs have the URL
		return nil, fmt.Errorf("%s: %w: it has a password", u.Redacted(), ErrName)
	case u.Scheme == "http" && o.Digest == "" && o.Keys.IsEmpty():
		return nil, fmt.Errorf("%s: %w", source, ErrPlain)
	}
	return u, nil
}

func isFolder(u *url.URL) bool { return strings.HasSuffix(u.Path, "/") || u.Path == "" }

// find asks one server.
func find(ctx context.Context, u *url.URL, o Options) (s Store, err error) {
	c := newClient(o, false)
	s = Store{Origin: u.String(), Name: path.Base(u.Path), Digest: o.Digest}
	dir, names, missing := u.JoinPath(".."), []string{s.Name}, stores.ErrNoDigest
	folder := isFolder(u)
	if folder {
		dir, names, missing = u, layout.AttachableStores(), stores.ErrNoStore
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
