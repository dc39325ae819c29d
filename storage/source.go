package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/image"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/pinset"
)

// imageSource is an image source of containers/image that verifies what it returns by its
// digest, and fetches each manifest once.
type imageSource struct {
	// ImageSource is nil for an image of a registry.
	imgtypes.ImageSource
	pinned    pinset.Image
	manifests map[string]document
	// explain adds the sentinel of this package to an error of the library.
	explain func(context.Context, error) error
	// blobs has the blobs of an image on this machine; nil for a registry.
	blobs blobStore
	// repository has the places of an image of a registry; nil for an image on this machine.
	repository *repository
	from       *sources
	// held are the sources of places that were asked: their connections are kept until Close.
	held []*remote
}

// open opens an image on this machine or, if AddLocal has not named it, in its registry or a
// mirror. The caller closes it.
func (c *Client) open(ctx context.Context, img pinset.Image) (*imageSource, error) {
	if src, err := c.openLocal(ctx, img); src != nil || err != nil {
		return src, err
	}
	repo, err := c.remote.repository(img.Repository)
	if err != nil {
		return nil, err
	}
	return &imageSource{
		pinned: img, manifests: map[string]document{}, explain: classify, repository: repo, from: &c.remote,
	}, nil
}

// isRemote reports whether the image is not on this machine.
func (s *imageSource) isRemote() bool { return s.repository != nil }

// Close ends the use of the source.
func (s *imageSource) Close() error {
	if !s.isRemote() {
		return s.ImageSource.Close()
	}
	var errs []error
	for _, r := range s.held {
		errs = append(errs, r.release())
	}
	s.held = nil
	return errors.Join(errs...)
}

// hold keeps the connections of a source that is asked.
func (s *imageSource) hold(r *remote) *remote {
	if !slices.Contains(s.held, r) {
		r.acquire()
		s.held = append(s.held, r)
	}
	return r
}

// HasThreadSafeGetBlob implements types.ImageSource.
func (s *imageSource) HasThreadSafeGetBlob() bool { return true }

// Reference implements types.ImageSource.
func (s *imageSource) Reference() imgtypes.ImageReference {
	if s.isRemote() {
		ref, _ := dockerReference(s.pinned.String()) // it was parsed before
		return ref
	}
	return s.ImageSource.Reference()
}

// LayerInfosForCopy implements types.ImageSource.
func (s *imageSource) LayerInfosForCopy(context.Context, *digest.Digest) ([]imgtypes.BlobInfo, error) {
	return nil, nil
}

type document struct {
	content   []byte
	mediaType string
}

// verifiedImage is an image of the library with a manifest that was fetched before: the library would
// fetch it again to check signatures. The embedded type passes on sigstore signatures, by a method
// with internal types.
type verifiedImage struct {
	*image.UnparsedImage
	manifest document
}

// Manifest implements types.UnparsedImage.
func (v verifiedImage) Manifest(context.Context) ([]byte, string, error) {
	return v.manifest.content, v.manifest.mediaType, nil
}

// GetManifest fetches a manifest; a nil instance means the pinned one.
func (s *imageSource) GetManifest(ctx context.Context, instance *digest.Digest) ([]byte, string, error) {
	want := s.pinned.Digest
	if instance != nil {
		want = *instance
	}
	if doc, ok := s.manifests[want.String()]; ok {
		return doc.content, doc.mediaType, nil
	}
	var doc document
	var err error
	if s.isRemote() {
		doc, err = s.remoteManifest(ctx, want)
	} else {
		doc.content, doc.mediaType, err = s.ImageSource.GetManifest(ctx, instance)
		if err == nil {
			err = verifyManifest(doc.content, want)
		}
	}
	if err != nil {
		return nil, "", s.explain(ctx, err)
	}
	if err := pinset.CheckParts(doc.content); err != nil {
		return nil, "", s.explain(ctx, fmt.Errorf("manifest %s: %w: %w", want, ErrNotImage, err))
	}
	s.manifests[want.String()] = doc
	return doc.content, doc.mediaType, nil
}

func verifyManifest(content []byte, want digest.Digest) error {
	if got := digest.FromBytes(content); got != want {
		return fmt.Errorf("manifest: %w: it is %s", ErrDigest, got)
	}
	return nil
}

// remoteManifest fetches a manifest from the first place that has it.
func (s *imageSource) remoteManifest(ctx context.Context, want digest.Digest) (doc document, err error) {
	turn := s.turn()
	for {
		r, err := turn.next(ctx)
		if err != nil {
			return document{}, err
		}
		if doc, err = r.manifest(ctx, want); err == nil {
			err = verifyManifest(doc.content, want)
		}
		if err != nil {
			turn.failed(ctx, err)
			continue
		}
		turn.end()
		if want == s.pinned.Digest && turn.place > 0 && turn.place < len(s.repository.places) {
			s.repository.foundAt(want, turn.place)
		}
		return doc, nil
	}
}

// turn asks the places of an image, one after the other: where it was requested by its tag, the mirrors and the
// registry from the first one on that has its manifest, and mirrors that serve only tags.
type turn struct {
	src *imageSource
	// remote is the one that is asked; nil for none. It is of the place with that number, unless it is of a tag.
	remote *remote
	place  int
	tagged bool
	begun  bool
	// renewed means that the place has got another source for one whose token was revoked.
	renewed bool
	tried   failures
	byTag   bool // mirrors that serve only tags were asked, too
}

func (s *imageSource) turn() *turn { return &turn{src: s} }

// next returns the source to ask, which is that of before until it has failed. The error is that of all places.
func (t *turn) next(ctx context.Context) (*remote, error) {
	if t.remote != nil {
		return t.remote, nil
	}
	s := t.src
	if !t.begun {
		t.begun, t.place = true, s.repository.at(s.pinned.Digest)
		if r := s.from.byTag(s.pinned); r != nil {
			r.acquire()
			t.remote, t.tagged = s.hold(r), true
			return r, nil
		}
	}
	for ; t.place < len(s.repository.places); t.place++ {
		p := s.repository.places[t.place]
		r, err := p.acquire(ctx, s.pinned)
		if err == nil {
			t.remote = s.hold(r)
			return r, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		t.tried = append(t.tried, failure{p.host, err})
	}
	if !t.byTag {
		t.byTag = true
		if r := s.from.openTag(ctx, s.pinned); r != nil {
			r.acquire()
			t.remote, t.tagged = s.hold(r), true
			return r, nil
		}
	}
	return nil, t.tried.err(ctx)
}

// failed ends the use of a source that has failed.
func (t *turn) failed(ctx context.Context, err error) {
	r := t.remote
	t.end()
	t.tried = append(t.tried, failure{r.host.Name(), err})
	if t.tagged {
		t.tagged = false
		return
	}
	if again := t.src.repository.places[t.place].fail(ctx, r, err); again && !t.renewed {
		t.renewed, t.tried = true, t.tried[:len(t.tried)-1]
		return
	}
	t.renewed = false
	t.place++
}

// end ends the use of the source.
func (t *turn) end() {
	if t.remote != nil {
		_ = t.remote.release() // nothing was written to it
		t.remote = nil
	}
}

// failure is why a place does not give what it was asked for.
type failure struct {
	host string
	err  error
}

type failures []failure

// err is the error of the registry itself; those of its mirrors are added as text, so that they do not stand for it. If
// the registry is blocked, that of a mirror which could not be asked stands.
func (all failures) err(ctx context.Context) error {
	if len(all) == 0 {
		return ctx.Err()
	}
	last := len(all) - 1
	err := classify(ctx, all[last].err)
	counts := last
	if errors.Is(err, ErrBlocked) {
		for i, f := range all[:last] {
			if mirrors := classify(ctx, f.err); !errors.Is(mirrors, ErrNotFound) {
				err, counts = mirrors, i
			}
		}
	}
	for i, f := range all {
		if i != counts {
			err = fmt.Errorf("%w (%s: %v)", err, f.host, f.err) //nolint:errorlint // it must not count
		}
	}
	return err
}
