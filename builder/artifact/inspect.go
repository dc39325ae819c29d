package artifact

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage/iso9660"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/release"
)

// OpenPart opens a document by its name in the sums; of an ISO also the Ignition config (IgnitionFile) and the base
// (ISOBase), which are no files in it.
func OpenPart(r *release.Release, name string) (release.Document, error) {
	if r.Image == nil {
		return r.Open(name)
	}
	switch name {
	case IgnitionFile:
		config, err := ignitionIn(r)
		return release.Document{ReadCloser: io.NopCloser(bytes.NewReader(config)), Size: int64(len(config))}, err
	case layout.MediumBase:
		base, size, err := iso.Of(r.Image).Base()
		return release.Document{ReadCloser: io.NopCloser(base), Size: size}, err
	}
	return r.Open(name)
}

// ignitionIn returns the Ignition config of an ISO, which must have one.
func ignitionIn(r *release.Release) ([]byte, error) {
	config, err := iso.Of(r.Image).Ignition()
	if err == nil && config == nil {
		err = fmt.Errorf("%s: %w", IgnitionFile, iso9660.ErrNotFound)
	}
	return config, err
}

// Extract writes a part of an ISO.
func Extract(ctx context.Context, name, part string, w io.Writer) error {
	r, err := OpenISO(name)
	if err != nil {
		return err
	}
	defer r.Close()
	inside, err := OpenPart(r, part)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	_, err = io.Copy(w, reader{ctx, inside, nil})
	return err
}

// OpenISO opens a live ISO or a medium. The caller closes it.
func OpenISO(name string) (*release.Release, error) {
	r, err := release.Open(name, nil)
	if err == nil && r.Image == nil {
		return nil, fmt.Errorf("%s: %w", name, iso9660.ErrNotISO)
	}
	return r, err
}

// Inspect describes an ISO, with the digests of the files that pinbox added.
func Inspect(r *release.Release) (iso.Info, error) {
	image := iso.Of(r.Image)
	info, err := image.Info()
	if err != nil {
		return iso.Info{}, fmt.Errorf("%s: %w", r.Name, err)
	}
	sums, err := r.Sums()
	if release.IsMissing(err) {
		return info, nil
	}
	if err != nil {
		return info, err
	}
	info.BaseSHA256 = sums[layout.MediumBase]
	for i, m := range info.Added {
		info.Added[i].SHA256 = sums[m.Name]
	}
	if root, err := r.Read(layout.MediumRootHash, maxRootHash); err == nil {
		info.StoreRootHash = strings.TrimSpace(string(root))
	}
	if lock, err := r.Lock(); err == nil {
		info.Appliance, info.Release = lock.Name, lock.Number
	}
	if info.Ignition == nil {
		return info, nil
	}
	for i, m := range info.Ignition.Members {
		info.Ignition.Members[i].SHA256 = sums[m.Name]
	}
	if config, err := image.Ignition(); err == nil {
		info.Installs = ignition.InstallDisk(config)
	}
	return info, nil
}

// maxRootHash is the limit for a file with a root hash in bytes.
const maxRootHash = 1 << 10
