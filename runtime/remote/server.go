package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/fetch"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/signature"
)

// onServer finds a store on a server: its file, or in a folder if the path ends with a slash.
func onServer(ctx context.Context, source string, o Options) (Store, error) {
	u, err := url.Parse(source)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "":
		return Store{}, fmt.Errorf("%q: %w", source, ErrName)
	case u.User != nil: // messages and logs have the URL
		return Store{}, fmt.Errorf("%s: %w: it has a password", u.Redacted(), ErrName)
	case u.Scheme == "http" && o.Digest == "" && o.Keys.IsEmpty():
		return Store{}, fmt.Errorf("%s: %w", source, ErrPlain)
	}
	if strings.HasSuffix(u.Path, "/") || u.Path == "" {
		if u, err = inFolder(ctx, u); err != nil {
			return Store{}, err
		}
	}
	s := Store{Origin: u.String(), Name: path.Base(u.Path), Digest: o.Digest}
	if strings.HasPrefix(s.Name, ".") {
		return Store{}, fmt.Errorf("%q: %w", source, ErrName)
	}
	if s.Digest == "" {
		if s.Digest, err = findDigest(ctx, u); err != nil {
			return Store{}, err
		}
	}
	s.signature, err = fetch.Text(ctx, beside(u, s.Name+layout.SignatureSuffix), signature.MaxSize)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Store{}, err
	}
	s.Size, err = fetch.Size(ctx, s.Origin)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", stores.ErrNoStore, err)
	}
	return s, err
}

// inFolder returns the URL of the store that the sums in a folder list.
func inFolder(ctx context.Context, dir *url.URL) (*url.URL, error) {
	text, err := fetch.Text(ctx, dir.JoinPath(layout.SumsFile).String(), layout.MaxSums)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", stores.ErrNoStore, err)
	}
	if err != nil {
		return nil, err
	}
	sums, err := layout.ReadSums(bytes.NewReader(text), layout.MaxSums)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", dir, stores.ErrNoDigest, err)
	}
	for _, name := range layout.AttachableStores() {
		if sums[name] != "" {
			return dir.JoinPath(name), nil
		}
	}
	return nil, fmt.Errorf("%s: %w: %s lists none", dir, stores.ErrNoStore, layout.SumsFile)
}

// findDigest finds the digest of a file in the sums next to it.
func findDigest(ctx context.Context, file *url.URL) (digest.Digest, error) {
	for _, name := range []string{layout.SumsFile, layout.MediumSums} {
		text, err := fetch.Text(ctx, beside(file, name), layout.MaxSums)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		found, err := layout.FindSum(bytes.NewReader(text), path.Base(file.Path))
		if err != nil {
			return "", fmt.Errorf("%s: %w: %w", beside(file, name), stores.ErrNoDigest, err)
		}
		if found != "" {
			return found, nil
		}
	}
	return "", fmt.Errorf("%s: %w", file, stores.ErrNoDigest)
}

// beside is the URL of another file in the same folder.
func beside(file *url.URL, name string) string {
	other := file.JoinPath("..", name)
	other.RawQuery = file.RawQuery
	return other.String()
}
