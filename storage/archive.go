package storage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"

	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/compression"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/input"
)

// OpenArchive lists the images of an archive that `podman save` or `skopeo copy` wrote, in the
// format of OCI or of Docker, compressed or not. An uncompressed file is read in place; a
// compressed one is decompressed into a temporary file in tmp. The caller closes closer after its
// last use of the images.
func OpenArchive(ctx context.Context, name, tmp string) (all []LocalImage, closer io.Closer, err error) {
	switch fi, err := stat(name); {
	case err != nil:
		return nil, nil, err
	case fi.IsDir():
		return nil, nil, fmt.Errorf("%s: %w: a folder is not an archive; is it an OCI layout?", name, ErrWrongKind)
	}
	f, err := plainFile(name, tmp)
	if err != nil {
		return nil, nil, explainArchive(name, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(explainArchive(name, err), f.Close())
		}
	}()
	var tree Tree
	if err := tree.add(ctx, f); err != nil {
		return nil, nil, err
	}
	switch {
	case tree.Has(imgspecv1.ImageLayoutFile):
		all, err = ociImages(&tree, name)
	case tree.Has(dockerManifest):
		all, err = dockerImages(ctx, &tree, name)
	default:
		err = fmt.Errorf("%w: it has neither %s nor %s; archives of oc-mirror are another input", ErrWrongKind,
			imgspecv1.ImageLayoutFile, dockerManifest)
	}
	if err != nil {
		return nil, nil, err
	}
	return all, f, nil
}

// explainArchive adds ErrLocal to an error, unless it has another cause than the file's content.
func explainArchive(name string, err error) error {
	for _, other := range []error{
		ErrWrongKind, environment.ErrNoTemp, syscall.ENOSPC, fs.ErrPermission, context.Canceled,
	} {
		if errors.Is(err, other) {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return fmt.Errorf("archive %s: %w: %w", name, ErrLocal, err)
}

// plainFile opens a file, or a decompressed copy of it that has no name.
func plainFile(name, tmp string) (_ *os.File, err error) {
	f, err := input.Open(name)
	if err != nil {
		return nil, err
	}
	stream, compressed, err := compression.AutoDecompress(f)
	if err == nil && !compressed {
		_, err = f.Seek(0, io.SeekStart)
		return f, err
	}
	defer f.Close()
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	plain, err := environment.TempFile(tmp)
	if err != nil {
		return nil, err
	}
	if _, err = io.Copy(plain, stream); err == nil {
		_, err = plain.Seek(0, io.SeekStart)
	}
	if err != nil {
		return nil, errors.Join(err, plain.Close())
	}
	return plain, nil
}

type closers []io.Closer

func (all closers) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// dockerReference parses a full name. Policies are for references of this kind.
func dockerReference(name string) (imgtypes.ImageReference, error) {
	named, err := reference.ParseNamed(name)
	if err != nil {
		return nil, err
	}
	return docker.NewReference(named)
}
