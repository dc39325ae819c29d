package storage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/realm"
)

// remoteSource is the library's source of an image in a registry. The library lets nobody share
// connections and tokens of sources (dockerClient in docker/docker_client.go), but a source reads
// all manifests and blobs of its repository.
type remoteSource struct {
	imgtypes.ImageSource
	// first is the image that it was opened for: the library has its manifest.
	first digest.Digest
	// manifests that were fetched when it was opened.
	manifests map[string]document
	ranges    rangeSupport
	// loading is held while the library reads and forgets the manifest of first: it has no lock for that.
	loading sync.Mutex

	mu    sync.Mutex
	users int
}

// acquire returns the source for one more image.
func (r *remoteSource) acquire(from *sources, img pinset.Image, name string) *imageSource {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
	s := &imageSource{
		ImageSource: r.ImageSource, pinned: img, manifests: map[string]document{}, explain: classify, remote: r,
		wait: from.waiter(img.Repository, name),
	}
	if doc, ok := r.manifests[img.Digest.String()]; ok {
		s.manifests[img.Digest.String()] = doc
	}
	return s
}

// release closes the idle connections after the last user; the next one gets others.
func (r *remoteSource) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users > 0 {
		return nil
	}
	return r.ImageSource.Close()
}

// repository has the source that the images of a repository share, once one of them was opened.
type repository struct {
	mu     sync.Mutex
	shared *remoteSource
	failed bool // the first image could not be opened: each one is opened alone
}

// sources opens images in registries and mirrors.
type sources struct {
	sys *imgtypes.SystemContext
	// stallTimeout and retrying are fields of Access.
	stallTimeout time.Duration
	retrying     func(string)
	fast         int64 // see rate

	mu           sync.Mutex       // guards the fields below
	rates        map[string]*rate // of hosts
	repositories map[string]*repository
	// alone are images that cannot be read by the source of their repository, or were requested by tag.
	alone map[pinset.Image]*remoteSource
	// tags has the names by which images were requested, "repository:tag".
	tags map[pinset.Image]string
}

// open opens an image on this machine or, if AddLocal has not named it, in its registry or a
// mirror. The caller closes it.
func (c *Client) open(ctx context.Context, img pinset.Image) (*imageSource, error) {
	if src, err := c.openLocal(ctx, img); src != nil || err != nil {
		return src, err
	}
	return c.remote.open(ctx, img)
}

func (s *sources) open(ctx context.Context, img pinset.Image) (*imageSource, error) {
	s.mu.Lock()
	alone, repo := s.alone[img], s.repositories[img.Repository]
	if repo == nil {
		repo = &repository{}
		s.repositories[img.Repository] = repo
	}
	s.mu.Unlock()
	if alone != nil {
		return alone.acquire(s, img, img.String()), nil
	}
	repo.mu.Lock()
	if repo.shared != nil {
		defer repo.mu.Unlock()
		return repo.shared.acquire(s, img, img.String()), nil
	}
	if repo.failed {
		repo.mu.Unlock()
		return s.openAlone(ctx, img)
	}
	defer repo.mu.Unlock()
	src, err := s.openName(ctx, img.String(), img)
	if err == nil {
		repo.shared = src.remote
		return src, nil
	}
	repo.failed = ctx.Err() == nil
	if byTag := s.openTag(ctx, img); byTag != nil {
		return byTag, nil
	}
	return nil, err
}

// forget frees the source of a repository from which nothing more is expected: it takes 15 KB. Whoever opens an image
// of it has another one, which fetches the manifest again.
func (s *sources) forget(repository string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.repositories, repository)
}

// openAlone opens an image with a source of its own, for which the library asks all mirrors.
func (s *sources) openAlone(ctx context.Context, img pinset.Image) (*imageSource, error) {
	src, err := s.openName(ctx, img.String(), img)
	if err != nil {
		if byTag := s.openTag(ctx, img); byTag != nil {
			return byTag, nil
		}
		return nil, err
	}
	s.keepAlone(img, src.remote)
	return src, nil
}

// keepAlone keeps the source of an image for the next time that it is opened.
func (s *sources) keepAlone(img pinset.Image, src *remoteSource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.alone[img] = src
}

// openWithManifest opens an image and fetches its manifest. If the mirror that its repository shares
// lacks it, all mirrors are asked, as they are for the first image of the repository.
func (c *Client) openWithManifest(
	ctx context.Context, img pinset.Image,
) (src *imageSource, raw []byte, mediaType string, err error) {
	if src, err = c.open(ctx, img); err != nil {
		return nil, nil, "", err
	}
	raw, mediaType, err = src.GetManifest(ctx, nil)
	if err != nil && c.remote.othersMayHave(ctx, src, err) {
		_ = src.Close() // nothing was written to it
		if src, err = c.remote.openAlone(ctx, img); err != nil {
			return nil, nil, "", err
		}
		raw, mediaType, err = src.GetManifest(ctx, nil)
	}
	if err != nil {
		return nil, nil, "", errors.Join(err, src.Close())
	}
	return src, raw, mediaType, nil
}

// othersMayHave reports whether mirrors should be asked for an image that failed with an error.
func (s *sources) othersMayHave(ctx context.Context, src *imageSource, err error) bool {
	if src.remote == nil || src.remote.first == src.pinned.Digest || ctx.Err() != nil || errors.Is(err, ErrStalled) {
		return false
	}
	registry, failed := sysregistriesv2.FindRegistry(s.sys, src.pinned.Repository)
	return failed == nil && registry != nil && len(registry.Mirrors) > 0
}

// openName opens an image by a name with a tag or a digest.
func (s *sources) openName(ctx context.Context, name string, pinned pinset.Image) (*imageSource, error) {
	ref, err := dockerReference(name)
	if err != nil {
		return nil, err
	}
	realms, err := realm.Of(ctx, s.sys, ref, s.stallTimeout)
	if errors.Is(err, realm.ErrCredentials) {
		return nil, err
	}
	if err != nil {
		return nil, classify(ctx, err)
	}
	sys := *s.sys
	sys.DockerProxy = realms.Proxy
	wait := s.waiter(pinned.Repository, name)
	var src imgtypes.ImageSource
	if err := wait.request(ctx, func(ctx context.Context) (err error) {
		src, err = realm.Await(ctx, func() (imgtypes.ImageSource, error) { return ref.NewImageSource(ctx, &sys) },
			func(late imgtypes.ImageSource) { _ = late.Close() }) // it runs helpers for credentials again
		return err
	}); err != nil {
		return nil, classify(ctx, err)
	}
	realms.Guard(src)
	keepConnections(src)
	remote := &remoteSource{ImageSource: src, first: pinned.Digest, manifests: map[string]document{}}
	return remote.acquire(s, pinned, name), nil
}

// keepConnections lets a source of the library keep its idle connections. net/http keeps two, and closes the others of
// parallelFetches, so that most requests would wait for a new connection. The library has no option for it
// (detectPropertiesHelper in docker/docker_client.go): should its fields change, two are kept.
func keepConnections(src imgtypes.ImageSource) {
	client := realm.Hidden[*http.Client](src, "c", "client")
	if client == nil || *client == nil {
		return
	}
	if transport, ok := (*client).Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = parallelFetches
	}
}

// forgetManifest frees what a source of the library keeps of the image that it was opened for: 2,000 manifests of 50
// layers take 17 MB. The library has no option for it (dockerImageSource in docker/docker_image_src.go), and would
// fetch the manifest again; should its fields change, it keeps them.
func forgetManifest(src imgtypes.ImageSource) {
	if manifest := realm.Hidden[[]byte](src, "cachedManifest"); manifest != nil {
		*manifest = nil
	}
}

// imageSource is an image source of containers/image that verifies what it returns by its
// digest, and fetches each manifest once.
type imageSource struct {
	imgtypes.ImageSource
	pinned    pinset.Image
	manifests map[string]document
	// explain adds the sentinel of this package to an error of the library.
	explain func(context.Context, error) error
	// blobs has the blobs of an image on this machine; nil for a registry.
	blobs blobStore
	// remote is ImageSource with its other users; nil for an image on this machine.
	remote *remoteSource
	// wait has the time limit for a registry.
	wait waiter
}

// Close ends the use of the source.
func (s *imageSource) Close() error {
	if s.remote == nil {
		return s.ImageSource.Close()
	}
	return s.remote.release()
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
	if s.remote != nil {
		instance = &want
	}
	content, mediaType, err := s.fetchManifest(ctx, instance)
	if err != nil {
		return nil, "", s.explain(ctx, err)
	}
	if got := digest.FromBytes(content); got != want {
		return nil, "", s.explain(ctx, fmt.Errorf("manifest: %w: it is %s", ErrDigest, got))
	}
	if err := pinset.CheckParts(content); err != nil {
		return nil, "", s.explain(ctx, fmt.Errorf("manifest %s: %w: %w", want, ErrNotImage, err))
	}
	s.manifests[want.String()] = document{content: content, mediaType: mediaType}
	return content, mediaType, nil
}

// fetchManifest fetches a manifest without comparing it with a digest; a nil instance means the one
// that the source was opened for.
func (s *imageSource) fetchManifest(
	ctx context.Context, instance *digest.Digest,
) (content []byte, mediaType string, err error) {
	first := s.remote != nil && instance != nil && *instance == s.remote.first
	if first {
		instance = nil
		s.remote.loading.Lock()
		defer s.remote.loading.Unlock()
	}
	err = s.wait.request(ctx, func(ctx context.Context) (err error) {
		content, mediaType, err = s.ImageSource.GetManifest(ctx, instance)
		return err
	})
	if first && err == nil {
		forgetManifest(s.ImageSource)
	}
	return content, mediaType, err
}
