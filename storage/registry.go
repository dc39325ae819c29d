package storage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/distribution/registry/api/errcode"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/signature"
	imgtypes "go.podman.io/image/v5/types"
	"go.podman.io/storage/pkg/configfile"

	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/pinset"
)

// What can go wrong with a registry, and with what it serves.
var (
	ErrRegistry     = errors.New("registry cannot be used")
	ErrUnauthorized = errors.New("registry refuses the credentials")
	ErrNotFound     = errors.New("registry does not have it")
	ErrDigest       = errors.New("content is not what its digest says")
	ErrPolicy       = errors.New("signature policy refuses the image")
	ErrAccess       = errors.New("cannot be used to reach registries")
	// These come with ErrRegistry.
	ErrCertificate = errors.New("its certificate is not trusted")
	ErrPlainHTTP   = errors.New("it has no TLS")
	ErrStalled     = errors.New("it stalls") // keeps a connection and sends next to nothing
)

// Access is how registries are reached. The zero value does what skopeo does
// without flags.
type Access struct {
	// AuthFile holds credentials in the form of containers-auth.json(5); "" means
	// $REGISTRY_AUTH_FILE and the places that podman and docker use.
	AuthFile string
	// CertDir holds client certificates and CAs; "" means /etc/containers/certs.d.
	CertDir string
	// Policy is a containers-policy.json(5) file; "" means that of the user or the
	// host, and to accept every image where neither has one: all images are
	// asked for by digest.
	Policy string
	// InsecurePolicy leaves out the policy, whatever it says.
	InsecurePolicy bool
	// RegistriesDir is a containers-registries.d(5) folder, which tells where
	// signatures are; "" means that of the user or the host.
	RegistriesDir string
	// StallTimeout is how long a registry may take to answer, or send next to nothing of a blob,
	// before it is asked again; 0 means StallTime.
	StallTimeout time.Duration
	// Retrying is called with a line of text before a request is repeated, because the registry stalled or
	// the connection was lost. It is called from several goroutines; it may be nil.
	Retrying func(string)
	// Insecure permits plain HTTP and certificates that nobody vouches for.
	Insecure bool
	// Registries is a drop-in that comes after all of the host's registries.conf.d;
	// nil for none.
	Registries []byte
}

// Client reaches registries for images of one platform.
type Client struct {
	platform pinset.Platform
	sys      *imgtypes.SystemContext
	policy   *signature.Policy
	// stallTimeout and retrying are those of Access.
	stallTimeout time.Duration
	retrying     func(string)
	// opened are sources of images that were asked for by tag: their manifests are
	// here already.
	mu     sync.Mutex
	opened map[pinset.Image]*imageSource
	known  map[pinset.Image]Resolved
	local  map[pinset.Image]LocalImage
	// tags by which images were asked for.
	tags        map[pinset.Image]string
	credentials Credentials
	// warnings about the environment.
	warnings []string
	// registries is the folder of registries.conf, if it is ours.
	registries string
}

// NewClient looks at everything that can be looked at without a request.
func NewClient(access Access, platform pinset.Platform) (_ *Client, err error) {
	warnings, err := environment.Prepare()
	if err != nil {
		return nil, err
	}
	goos, arch, variant := platform.Split()
	sys := &imgtypes.SystemContext{
		DockerCertPath:          access.CertDir,
		SignaturePolicyPath:     access.Policy,
		RegistriesDirPath:       access.RegistriesDir,
		DockerRegistryUserAgent: "pinbox",
		OSChoice:                goos, ArchitectureChoice: arch, VariantChoice: variant,
	}
	if access.Insecure {
		sys.DockerInsecureSkipTLSVerify = imgtypes.OptionalBoolTrue
	}
	c := &Client{
		platform: platform, sys: sys, warnings: warnings, retrying: access.Retrying,
		stallTimeout: cmp.Or(access.StallTimeout, DefaultStallTimeout),
		opened:       map[pinset.Image]*imageSource{}, known: map[pinset.Image]Resolved{},
		local: map[pinset.Image]LocalImage{}, tags: map[pinset.Image]string{},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.policy, err = access.policy(sys); err != nil {
		return nil, fmt.Errorf("signature policy %w: %w", ErrAccess, err)
	}
	if err := access.checkFolders(sys); err != nil {
		return nil, err
	}
	// The library leaves the variable to its callers.
	if c.credentials, err = ReadCredentials(cmp.Or(access.AuthFile, os.Getenv("REGISTRY_AUTH_FILE"))); err != nil {
		return nil, err
	}
	sys.AuthFilePath = c.credentials.Path
	if access.Registries == nil {
		return c, nil
	}
	if c.registries, err = withRegistries(access.Registries); err != nil {
		return nil, err
	}
	sys.SystemRegistriesConfPath, sys.SystemRegistriesConfDirPath = registriesConf(c.registries),
		registriesDir(c.registries)
	return c, nil
}

// checkFolders looks for those that are named: the library takes a missing folder
// for an empty one. It also has the library read registries.d.
func (a Access) checkFolders(sys *imgtypes.SystemContext) error {
	for _, f := range []struct{ what, dir string }{{"certificates", a.CertDir}, {"registries.d", a.RegistriesDir}} {
		if f.dir == "" {
			continue
		}
		if _, err := os.ReadDir(f.dir); err != nil {
			return fmt.Errorf("%s %w: %w", f.what, ErrAccess, err)
		}
	}
	any, err := dockerReference("localhost/any@sha256:" + strings.Repeat("0", 64))
	if err == nil {
		_, err = docker.SignatureStorageBaseURL(sys, any, false)
	}
	if err != nil {
		return fmt.Errorf("registries.d %w: %w", ErrAccess, err)
	}
	return nil
}

// policy is that of the user or the host, where none is given.
func (a Access) policy(sys *imgtypes.SystemContext) (*signature.Policy, error) {
	accept := &signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}}
	if a.InsecurePolicy {
		return accept, nil
	}
	policy, err := signature.DefaultPolicy(sys)
	if errors.Is(err, configfile.ErrConfigFileNotFound) {
		return accept, nil
	}
	return policy, err
}

// allow asks the policy about an image of the library's own source (one that is
// wrapped hides its sigstore signatures), under the name that is pinned, wherever it
// came from. A context serves one question at a time, so each image has its own.
func (c *Client) allow(ctx context.Context, from imgtypes.UnparsedImage, img pinset.Image) error {
	ref, err := dockerReference(img.String())
	if err != nil {
		return err
	}
	policy, err := signature.NewPolicyContext(c.policy)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	_, err = policy.IsRunningImageAllowed(ctx, image.UnparsedInstanceWithReference(from, ref))
	if destroyed := policy.Destroy(); err == nil {
		err = destroyed
	}
	if err == nil {
		return nil
	}
	// The library has no type for what is wrong with the only signature.
	var network net.Error
	if classified := classify(ctx, err); !errors.Is(classified, ErrRegistry) || errors.As(err, &network) {
		return classified
	}
	return fmt.Errorf("%w: %w", ErrPolicy, err)
}

// open starts to read an image: from this machine, or from a registry under its own
// name or from a mirror of it.
func (c *Client) open(ctx context.Context, img pinset.Image) (*imageSource, error) {
	if src, err := c.openLocal(ctx, img); src != nil || err != nil {
		return src, err
	}
	c.mu.Lock()
	src := c.opened[img]
	delete(c.opened, img)
	c.mu.Unlock()
	if src != nil {
		return src, nil
	}
	src, err := c.openName(ctx, img.String(), img)
	if err != nil {
		if byTag := c.openTag(ctx, img); byTag != nil {
			return byTag, nil
		}
	}
	return src, err
}

// Warnings tell what of the access cannot be used.
func (c *Client) Warnings() []string { return slices.Concat(c.warnings, c.credentials.Warnings) }

// Close gives back what was opened and not used, and removes the client's files.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for img, src := range c.opened {
		errs = append(errs, src.Close())
		delete(c.opened, img)
	}
	errs = append(errs, c.credentials.Close())
	if c.registries != "" {
		errs = append(errs, os.RemoveAll(c.registries))
	}
	return errors.Join(errs...)
}

func (c *Client) openName(ctx context.Context, name string, pinned pinset.Image) (*imageSource, error) {
	ref, err := dockerReference(name)
	if err != nil {
		return nil, err
	}
	wait := c.waiter(pinned.Repository, name)
	var src imgtypes.ImageSource
	if err := wait.ask(ctx, func(ctx context.Context) (err error) {
		src, err = ref.NewImageSource(ctx, c.sys)
		return err
	}); err != nil {
		return nil, classify(ctx, err)
	}
	return &imageSource{
		ImageSource: src, pinned: pinned, manifests: map[string]document{}, explain: classify, remote: true, wait: wait,
	}, nil
}

// imageSource is an image source of containers/image that verifies what it returns by its
// digest, and asks for each manifest once.
type imageSource struct {
	imgtypes.ImageSource
	pinned    pinset.Image
	manifests map[string]document
	// explain gives an error of the library its kind.
	explain func(context.Context, error) error
	// blobs has the image's blobs if they are on this machine; else it is nil.
	blobs blobStore
	// remote says that it is a registry, and wait how long that is waited for.
	remote bool
	wait   waiter
}

type document struct {
	content   []byte
	mediaType string
}

var statusText = regexp.MustCompile(`StatusCode: (\d{3})`)

// classify tells the kinds of failure apart that a user cures differently.
func classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrDigest) || errors.Is(err, ErrLocal) || errors.Is(err, ErrIncomplete) ||
		errors.Is(err, ErrRegistry) {
		return err
	}
	if err := blocked(err); err != nil {
		return err
	}
	status := 0
	var unexpected docker.UnexpectedHTTPStatusError
	var coded errcode.Error
	var refused docker.ErrUnauthorizedForCredentials
	var requirement signature.PolicyRequirementError
	switch {
	case errors.As(err, &requirement):
		return fmt.Errorf("%w: %w", ErrPolicy, err)
	case errors.As(err, &refused):
		status = http.StatusUnauthorized
	case errors.As(err, &unexpected):
		status = unexpected.StatusCode
	case errors.As(err, &coded):
		status = coded.Code.Descriptor().HTTPStatusCode
	default:
		// The library's error for an answer without JSON has no exported type.
		if m := statusText.FindStringSubmatch(err.Error()); m != nil {
			status, _ = strconv.Atoi(m[1]) // three digits
		}
	}
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	case http.StatusNotFound:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return unusable(err)
}

// certificateText is that of crypto/tls.CertificateVerificationError.
const certificateText = "tls: failed to verify certificate"

// unusable tells why a registry cannot be used. It goes by texts, as the library
// passes the errors of mirrors on without their types.
func unusable(err error) error {
	switch text := err.Error(); {
	case strings.Contains(text, certificateText):
		return fmt.Errorf("%w: %w: %w", ErrRegistry, ErrCertificate, err)
	case strings.Contains(text, http.ErrSchemeMismatch.Error()):
		return fmt.Errorf("%w: %w: %w", ErrRegistry, ErrPlainHTTP, err)
	}
	return fmt.Errorf("%w: %w", ErrRegistry, err)
}
