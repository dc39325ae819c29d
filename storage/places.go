package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/realm"
)

// DefaultStallTimeout is the default of Access.StallTimeout, and the same as in pinbox-node
// (runtime.Options). A registry that first fetches a blob from another one may take minutes before
// it sends the first byte.
const DefaultStallTimeout = 5 * time.Minute

// downTime is how long a place is not asked that cannot be used at all while there is another one.
const downTime = time.Minute

// sources opens images in registries and mirrors.
type sources struct {
	sys      *imgtypes.SystemContext
	patience *download.Patience
	parallel int // connections
	say      func(string)

	mu           sync.Mutex // guards the fields below
	repositories map[string]*repository
	// tagged has the sources of images that were requested by tag.
	tagged map[pinset.Image]*remote
	// tags has the tags by which images were requested.
	tags map[pinset.Image]string
	// placeSys is sys without mirrors; nil before the first request.
	placeSys *imgtypes.SystemContext
}

// repository has the places of its images, in the order in which they are asked: the mirrors and the registry.
type repository struct {
	places []*place

	mu sync.Mutex
	// found says which place has an image, if it is not the first one.
	found map[digest.Digest]int
}

// at returns the first place to ask for an image.
func (r *repository) at(d digest.Digest) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found[d]
}

func (r *repository) foundAt(d digest.Digest, at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found[d] = at
}

// repository returns the repository of a name.
func (s *sources) repository(name string) (*repository, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if repo := s.repositories[name]; repo != nil {
		return repo, nil
	}
	places, err := s.places(name, "@sha256:"+strings.Repeat("0", 64))
	if err != nil {
		return nil, err
	}
	repo := &repository{places: places, found: map[digest.Digest]int{}}
	s.repositories[name] = repo
	return repo, nil
}

// forget frees the sources of a repository from which nothing more is expected: one takes 15 KB. Whoever opens an image
// of it has another one, which fetches the manifest again.
func (s *sources) forget(repository string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.repositories, repository)
}

// places returns where the images of a repository may be. Some mirrors serve only tags, others only digests: suffix is
// one of them. The caller holds mu.
func (s *sources) places(repository, suffix string) ([]*place, error) {
	named, err := reference.ParseNormalizedNamed(repository + suffix)
	if err != nil {
		return nil, err
	}
	if err := s.prepare(); err != nil {
		return nil, err
	}
	registry, err := sysregistriesv2.FindRegistry(s.sys, named.Name())
	if err != nil {
		return nil, fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	if registry == nil {
		registry = &sysregistriesv2.Registry{
			Endpoint: sysregistriesv2.Endpoint{Location: named.Name()}, Prefix: named.Name(),
		}
	}
	found, err := registry.PullSourcesFromReference(named)
	if err != nil {
		return nil, fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	var all []*place
	for i, f := range found {
		host := reference.Domain(f.Reference)
		if host == "docker.io" {
			host = "registry-1.docker.io" // as newDockerClient does
		}
		p := &place{
			from: s, name: reference.TrimNamed(f.Reference).Name(), host: host, insecure: f.Endpoint.Insecure,
			last: i == len(found)-1,
		}
		if p.last && registry.Blocked {
			p.blocked = fmt.Errorf("%w: %s", ErrBlocked, p.name)
		}
		all = append(all, p)
	}
	return all, nil
}

// prepare makes placeSys: the library would ask the mirrors of a registry by itself, and stay with the one that has the
// first image. The caller holds mu.
func (s *sources) prepare() error {
	if s.placeSys != nil {
		return nil
	}
	registries, err := sysregistriesv2.GetRegistries(s.sys)
	if err != nil {
		return fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	if len(registries) == 0 {
		s.placeSys = s.sys
		return nil
	}
	helpers, err := sysregistriesv2.CredentialHelpers(s.sys)
	if err != nil {
		return fmt.Errorf("registries.conf %w: %w", ErrAccess, err)
	}
	sys := *s.sys
	err = loadRegistries(&sys, &sysregistriesv2.V2RegistriesConf{
		Registries: proxies(registries), CredentialHelpers: helpers,
	})
	if err == nil {
		s.placeSys = &sys
	}
	return err
}

// proxies returns, as registries of their own, the endpoints that are proxies of namespaces.
func proxies(registries []sysregistriesv2.Registry) (all []sysregistriesv2.Registry) {
	for _, r := range registries {
		for _, e := range append([]sysregistriesv2.Endpoint{r.Endpoint}, r.Mirrors...) {
			if e.NamespaceProxy != "" && e.Location != "" {
				all = append(all, sysregistriesv2.Registry{Prefix: e.Location, Endpoint: e})
			}
		}
	}
	return all
}

// place is where images of a repository may be: a mirror or the registry itself.
type place struct {
	from     *sources
	name     string // of the repository there
	host     string // HOST or HOST:PORT
	insecure bool
	last     bool  // there is no other place to ask
	blocked  error // why it is not asked; nil if it is

	opening sync.Mutex // held while the first source is opened
	mu      sync.Mutex // guards the fields below
	shared  *remote
	failed  bool // the first image could not be opened: others need not wait for each other
	down    error
	until   time.Time // when it is asked again
}

// remote is the library's source of an image in a registry. The library lets nobody share
// connections and tokens of sources (dockerClient in docker/docker_client.go), but a source reads
// all manifests and blobs of its repository.
type remote struct {
	src  imgtypes.ImageSource
	host *download.Host
	// first is the image that it was opened for: the library has its manifest.
	first  digest.Digest
	ranges rangeSupport
	// most is how often a request is made; 0 for as long as the patience lasts.
	most int
	// loading is held while the library reads and forgets the manifest of first: it has no lock for that.
	loading sync.Mutex

	// kept is the manifest of first, if it was requested by a tag.
	kept document

	mu    sync.Mutex
	users int
}

func (r *remote) acquire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users++
}

// release closes the idle connections after the last user; the next one gets others.
func (r *remote) release() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.users--; r.users > 0 {
		return nil
	}
	return r.src.Close()
}

// fail takes note of an error of the place, and reports whether another source of it may do better: its token was
// revoked. A mirror that cannot be used is left alone for a time.
func (p *place) fail(ctx context.Context, r *remote, err error) (again bool) {
	if ctx.Err() != nil {
		return false
	}
	err = classify(ctx, err)
	p.mu.Lock()
	defer p.mu.Unlock()
	again = errors.Is(err, ErrUnauthorized) && r != nil && p.shared == r
	switch {
	case again:
		p.shared = nil
	case p.last || errors.Is(err, ErrNotFound) || errors.Is(err, ErrDigest) || r != nil && errors.Is(err, ErrUnauthorized):
	case p.down == nil || time.Now().After(p.until):
		p.shared, p.down, p.until = nil, err, time.Now().Add(downTime)
		p.from.say(fmt.Sprintf("mirror %s cannot be used now, so the next place is asked: %v", p.host, err))
	}
	return again
}

// acquire returns a source of the place, which the caller releases.
func (p *place) acquire(ctx context.Context, img pinset.Image) (*remote, error) {
	if p.blocked != nil {
		return nil, p.blocked
	}
	r, failed, err := p.known()
	if r != nil || err != nil {
		return r, err
	}
	if !failed {
		p.opening.Lock()
		defer p.opening.Unlock()
		if r, _, err := p.known(); r != nil || err != nil {
			return r, err
		}
	}
	r, err = p.from.open(ctx, p, p.name+"@"+img.Digest.String(), img.Digest)
	if err != nil {
		p.fail(ctx, nil, err)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.failed = true
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared == nil {
		p.shared = r
	}
	r.acquire()
	return r, nil
}

// known returns the source that was opened before, or why there is none yet.
func (p *place) known() (r *remote, failed bool, down error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shared != nil {
		p.shared.acquire()
		return p.shared, false, nil
	}
	if p.down != nil && time.Now().Before(p.until) {
		return nil, false, p.down
	}
	return nil, p.failed, nil
}

// open opens an image by a name with a tag or a digest. It waits for a place that cannot answer now.
func (s *sources) open(ctx context.Context, p *place, name string, first digest.Digest) (*remote, error) {
	ref, err := dockerReference(name)
	if err != nil {
		return nil, err
	}
	sys := *s.placeSys
	if p.insecure {
		sys.DockerInsecureSkipTLSVerify = imgtypes.OptionalBoolTrue
	}
	realms, err := realm.Of(ctx, &sys, ref, s.patience.Stall)
	if err != nil {
		return nil, err
	}
	host := s.patience.Host(p.host)
	most := download.Attempts
	if p.last {
		most = 0
	}
	for n := 1; ; n++ {
		began := time.Now()
		repeated := host.Repeated() // a request that we repeat is none that the library does
		sys.DockerProxy = func(u *url.URL) (*url.URL, error) {
			repeated.See(u)
			return realms.Proxy(u)
		}
		src, err := openOnce(ctx, ref, &sys, host)
		if err == nil {
			repeated.End()
			realms.Guard(src)
			r := &remote{src: src, first: first, host: host, most: most}
			s.install(src, most)
			return r, nil
		}
		err = repeated.Busy(err)
		failure := download.Failed(err)
		if failure == nil || ctx.Err() != nil {
			return nil, answered(ctx, &sys, ref, host, err)
		}
		if failure.Busy {
			failure.Since = began // the library has waited, too
		}
		if err := host.Wait(ctx, failure, n, most); err != nil {
			return nil, err
		}
	}
}

// openOnce opens an image.
func openOnce(
	ctx context.Context, ref imgtypes.ImageReference, sys *imgtypes.SystemContext, host *download.Host,
) (src imgtypes.ImageSource, err error) {
	if err := host.Enter(ctx); err != nil {
		return nil, err
	}
	watched, stop := host.Watch(ctx)
	src, err = realm.Await(watched, func() (imgtypes.ImageSource, error) { return ref.NewImageSource(watched, sys) },
		func(late imgtypes.ImageSource) { _ = late.Close() }) // it runs helpers for credentials again
	err = download.Brief(stop(err))
	host.Leave(download.Failed(err))
	return src, err
}

// answered adds to an error of the library the status of the answer, if the library does not know the code in its
// body: it drops the status then. A request of the manifest by HEAD has no body. To one about credentials it adds
// which these are.
func answered(
	ctx context.Context, sys *imgtypes.SystemContext, ref imgtypes.ImageReference, host *download.Host, err error,
) error {
	if ctx.Err() != nil {
		return err
	}
	if unknownCode(err) {
		watched, stop := host.Watch(ctx)
		_, again := docker.GetDigest(watched, sys, ref)
		if status := statusOf(stop(again)); status != 0 {
			err = withStatus(status, err)
		}
	}
	if errors.Is(classify(ctx, err), ErrUnauthorized) {
		err = fmt.Errorf("%w: %s", err, realm.Used(sys, ref.DockerReference()))
	}
	return err
}

// install gives a source of the library a patient transport. It lets it keep its idle connections, too: net/http keeps
// two, and closes the others, so that most requests would wait for a new connection. The library has
// no option for either (detectPropertiesHelper in docker/docker_client.go): should its fields change, two are kept, and
// nothing is waited for.
func (s *sources) install(src imgtypes.ImageSource, most int) {
	client := realm.Hidden[*http.Client](src, "c", "client")
	if client == nil || *client == nil {
		return
	}
	if transport, ok := (*client).Transport.(*http.Transport); ok {
		transport.MaxIdleConnsPerHost = s.parallel
		(*client).Transport = &download.Transport{Next: transport, Patience: s.patience, Most: most}
	}
}

// manifest fetches a manifest without comparing it with its digest.
func (r *remote) manifest(ctx context.Context, want digest.Digest) (doc document, err error) {
	ctx, answer := download.WithAnswer(ctx)
	if want == r.first && r.kept.content != nil {
		return r.kept, nil
	}
	if want != r.first {
		doc.content, doc.mediaType, err = r.src.GetManifest(ctx, &want)
		return doc, withStatus(answer.Status, err)
	}
	r.loading.Lock()
	defer r.loading.Unlock()
	doc.content, doc.mediaType, err = r.src.GetManifest(ctx, nil)
	if err == nil {
		forgetManifest(r.src)
	}
	return doc, withStatus(answer.Status, err)
}

// forgetManifest frees what a source of the library keeps of the image that it was opened for: 2,000 manifests of 50
// layers take 17 MB. The library has no option for it (dockerImageSource in docker/docker_image_src.go), and would
// fetch the manifest again; should its fields change, it keeps them.
func forgetManifest(src imgtypes.ImageSource) {
	if manifest := realm.Hidden[[]byte](src, "cachedManifest"); manifest != nil {
		*manifest = nil
	}
}

// byTag returns the source of an image that was requested by its tag; nil if it was not.
func (s *sources) byTag(img pinset.Image) *remote {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tagged[img]
}

// openTag opens an image by the tag that it was requested by, for mirrors that serve only tags. It
// returns nil if it has no tag or no such mirror, or if the tag names another image now.
func (s *sources) openTag(ctx context.Context, img pinset.Image) *remote {
	s.mu.Lock()
	tag := s.tags[img]
	s.mu.Unlock()
	if tag == "" || !s.tagMirrors(img.Repository) {
		return nil
	}
	r, d, err := s.pin(ctx, img.Repository, tag)
	if err != nil || d != img.Digest {
		return nil
	}
	return r
}

// pin requests a tag from the first place that has it, and keeps the source for the image that it names.
func (s *sources) pin(ctx context.Context, repository, tag string) (*remote, digest.Digest, error) {
	s.mu.Lock()
	places, err := s.places(repository, ":"+tag)
	s.mu.Unlock()
	if err != nil {
		return nil, "", err
	}
	failed := failures{}
	for _, p := range places {
		r, doc, err := s.pinAt(ctx, p, tag)
		if err != nil {
			if ctx.Err() != nil {
				return nil, "", ctx.Err()
			}
			failed = append(failed, failure{p.host, err})
			continue
		}
		r.first, r.kept = digest.FromBytes(doc.content), doc
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tagged[pinset.Image{Repository: repository, Digest: r.first}] = r
		return r, r.first, nil
	}
	return nil, "", failed.err(ctx)
}

func (s *sources) pinAt(ctx context.Context, p *place, tag string) (*remote, document, error) {
	if p.blocked != nil {
		return nil, document{}, p.blocked
	}
	r, err := s.open(ctx, p, p.name+":"+tag, "")
	if err != nil {
		return nil, document{}, err
	}
	r.acquire()
	doc, err := r.manifest(ctx, "")
	if err == nil && bytes.HasPrefix(bytes.TrimSpace(doc.content), []byte("<")) { // it would be an image by its digest
		err = errors.New("the answer is a page, not a manifest: it may be of a proxy, or of a login")
	}
	return r, doc, errors.Join(err, r.release())
}

// hostOf returns the host that is asked first for images of a repository.
func (s *sources) hostOf(repository string) *download.Host {
	repo, err := s.repository(repository)
	if err != nil {
		return s.patience.Host(repository)
	}
	return s.patience.Host(repo.places[0].host)
}

// tagMirrors reports whether a repository has mirrors that serve only tags.
func (s *sources) tagMirrors(repository string) bool {
	registry, err := sysregistriesv2.FindRegistry(s.sys, repository)
	return err == nil && registry != nil && slices.ContainsFunc(registry.Mirrors, func(m sysregistriesv2.Endpoint) bool {
		return m.PullFromMirror == sysregistriesv2.MirrorByTagOnly
	})
}
