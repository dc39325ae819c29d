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
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/signature"
	imgtypes "go.podman.io/image/v5/types"
	"go.podman.io/storage/pkg/configfile"

	"github.com/pinbox/pinbox/storage/compose"
	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/environment"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/realm"
)

// Reasons why an image cannot be fetched from a registry.
var (
	ErrRegistry = fault.New(fault.Registry, "registry cannot be used",
		"check the host name, the network and registries.conf")
	ErrUnauthorized = fault.New(fault.Registry, "registry refuses the credentials",
		"log in with `podman login`, or give --authfile or --pull-secret")
	ErrNotFound = fault.New(fault.Registry, "registry does not have it",
		"check the name and the digest; the image may have been deleted")
	ErrDigest = fault.New(fault.Damaged, "content does not match its digest",
		"the registry, a proxy or the archive returned damaged data; use another one, or push the image again")
	ErrPolicy = fault.New(fault.Damaged, "signature policy refuses the image",
		"sign the image, or set its key in --policy; --registries.d sets where signatures are")
	ErrAccess = fault.New(fault.Input, "cannot be used to reach registries",
		"check --authfile, --pull-secret, REGISTRY_AUTH_FILE, spec.node.pullSecret, --registries.d, --policy, "+
			"--cert-dir and registries.conf")
	// Errors that are one of the following are also ErrRegistry.
	ErrCertificate = fault.New(fault.Registry, "its certificate is not trusted",
		"give the CA of the registry as ca.crt in the folder of --cert-dir, or as "+
			"/etc/containers/certs.d/HOST[:PORT]/ca.crt; a certificate that has expired or is for another host "+
			"must be renewed")
	ErrPlainHTTP = fault.New(fault.Registry, "it serves plain HTTP",
		"give it a certificate; or permit plain HTTP with --insecure-registry HOST[:PORT], spec.insecureRegistries "+
			"or `insecure = true` in registries.conf")
	ErrClientCertificate = fault.New(fault.Registry, "it wants a client certificate that it trusts",
		"put the certificate and its key as client.cert and client.key into the folder of --cert-dir, or into "+
			"/etc/containers/certs.d/HOST[:PORT]")
	ErrKeyPair = fault.New(fault.Input, "client certificate without its key, or the key without it",
		"put both NAME.cert and NAME.key into the folder of --cert-dir, or into /etc/containers/certs.d/HOST[:PORT]; the "+
			"name of a CA ends in .crt")
	ErrStalled = download.ErrStalled
	ErrRealm   = fault.New(fault.Registry, "a password goes only to the registry's own domain, by HTTPS",
		"serve tokens by HTTPS in the registry's domain, and manifests from its own port; or trust it with its "+
			"password, with --insecure-registry HOST[:PORT] or spec.insecureRegistries")
)

// Access has the options for requests to registries. The zero value does what skopeo does without
// flags.
type Access struct {
	// AuthFile has credentials in the format of containers-auth.json(5); "" means
	// $REGISTRY_AUTH_FILE and the files that podman and docker use.
	AuthFile string
	// CertDir has client certificates and CAs; "" means /etc/containers/certs.d.
	CertDir string
	// Policy is a containers-policy.json(5) file; "" means the file of the user or the host. If
	// neither has one, every image is accepted, since all images are requested by digest.
	Policy string
	// InsecurePolicy accepts every image, without reading a policy.
	InsecurePolicy bool
	// RegistriesDir is a containers-registries.d(5) folder, which configures where signatures are;
	// "" means the folder of the user or the host.
	RegistriesDir string
	// StallTimeout is how long requests that fail are repeated while nothing of the whole arrives, and how long a
	// registry may take to answer, or send next to nothing of a blob; 0 means DefaultStallTimeout.
	StallTimeout time.Duration
	// Parallel is the largest number of connections; 0 for parallelFetches.
	Parallel int
	// PerSecond is how many requests one registry gets in a second; 0 for no limit.
	PerSecond int
	// Retrying is called with a line of text before a registry is waited for. It is called from several goroutines; it
	// may be nil.
	Retrying func(string)
	// Insecure are registries, as HOST or HOST:PORT, that may serve plain HTTP, have certificates of
	// unknown authorities, and send passwords to other hosts for a token.
	Insecure []string
	// Limits of what one layer may need.
	Limits compose.Limits
	// Registries is a drop-in of registries.conf(5) that is read after all drop-ins of the host;
	// nil for none.
	Registries []byte
	// Documents says what becomes of the manifests of resolved images.
	Documents Documents
}

// Client resolves and reads images of one platform.
type Client struct {
	platform pinset.Platform
	sys      *imgtypes.SystemContext
	policy   *signature.Policy
	remote   sources
	limits   compose.Limits
	turn     compose.Turn // of layers that need much memory

	mu        sync.Mutex // guards resolved, local and anyArch
	resolved  map[pinset.Image]Resolved
	local     map[pinset.Image]LocalImage
	anyArch   map[pinset.Image]bool // taken whatever their architecture is
	layers    layers
	documents documents // of resolved images

	early early

	credentials Credentials
	// warnings about the environment.
	warnings []string
}

// NewClient reads and checks the configuration of the access. It makes no request.
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
	say := access.Retrying
	if say == nil {
		say = func(string) {}
	}
	c := &Client{
		platform: platform, sys: sys, warnings: warnings, limits: access.Limits, turn: compose.NewTurn(),
		remote: sources{
			sys: sys, patience: download.NewPatience(cmp.Or(access.StallTimeout, DefaultStallTimeout), say), say: say,
			parallel:     cmp.Or(access.Parallel, parallelFetches),
			repositories: map[string]*repository{}, tagged: map[pinset.Image]*remote{}, tags: map[pinset.Image]string{},
		},
		resolved: map[pinset.Image]Resolved{}, local: map[pinset.Image]LocalImage{}, anyArch: map[pinset.Image]bool{},
		documents: documents{none: access.Documents.None, file: compose.Documents{Tmp: access.Documents.Tmp}},
	}
	c.remote.patience.PerSecond = access.PerSecond
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
	// The library does not read the variable itself.
	if c.credentials, err = ReadCredentials(cmp.Or(access.AuthFile, os.Getenv("REGISTRY_AUTH_FILE"))); err != nil {
		return nil, err
	}
	sys.AuthFilePath = c.credentials.Path
	if access.Registries == nil && len(access.Insecure) == 0 {
		return c, nil
	}
	return c, withRegistries(sys, access.Registries, access.Insecure)
}

// checkFolders checks that folders which are named exist, since the library treats a missing folder
// as an empty one. It also checks that the library can parse registries.d.
func (a Access) checkFolders(sys *imgtypes.SystemContext) error {
	for _, f := range []struct{ what, dir string }{{"certificates", a.CertDir}, {"registries.d", a.RegistriesDir}} {
		if f.dir == "" {
			continue
		}
		if _, err := os.ReadDir(f.dir); err != nil {
			return fmt.Errorf("%s %w: %w", f.what, ErrAccess, err)
		}
	}
	ref, err := dockerReference("localhost/any@sha256:" + strings.Repeat("0", 64))
	if err == nil {
		_, err = docker.SignatureStorageBaseURL(sys, ref, false)
	}
	if err != nil {
		return fmt.Errorf("registries.d %w: %w", ErrAccess, err)
	}
	return nil
}

// policy reads the signature policy.
func (a Access) policy(sys *imgtypes.SystemContext) (*signature.Policy, error) {
	acceptAll := &signature.Policy{Default: signature.PolicyRequirements{signature.NewPRInsecureAcceptAnything()}}
	if a.InsecurePolicy {
		return acceptAll, nil
	}
	if a.Policy != "" {
		f, err := input.Open(a.Policy)
		if err != nil {
			return nil, err
		}
		_ = f.Close() // nothing was written to it
	}
	policy, err := signature.DefaultPolicy(sys)
	if errors.Is(err, configfile.ErrConfigFileNotFound) {
		return acceptAll, nil
	}
	return policy, err
}

// checkPolicy checks an image against the policy, under its pinned name, whatever its source is. A
// PolicyContext is not for concurrent use, so each image has its own.
func (c *Client) checkPolicy(ctx context.Context, from imgtypes.UnparsedImage, img pinset.Image) error {
	ref, err := dockerReference(img.String())
	if err != nil {
		return err
	}
	policy, err := signature.NewPolicyContext(c.policy)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	err = OpenPGP(func() error {
		_, err := policy.IsRunningImageAllowed(ctx, image.UnparsedInstanceWithReference(from, ref))
		return err
	})
	if destroyed := policy.Destroy(); err == nil {
		err = destroyed
	}
	if err == nil || errors.Is(err, ErrFIPS) {
		return err
	}
	// The library has no exported type for the error of an only signature.
	var network net.Error
	if classified := classify(ctx, err); !errors.Is(classified, ErrRegistry) || errors.As(err, &network) {
		return classified
	}
	return fmt.Errorf("%w: %w", ErrPolicy, err)
}

// parallel is the limit of connections.
func (c *Client) parallel() int { return cmp.Or(c.remote.parallel, parallelFetches) }

// resolving is how many of them ask for manifests and configurations, until all are known. These are small: the time
// for one is that of the answer.
func (c *Client) resolving() int { return max(1, c.parallel()*3/4) }

// Warnings lists parts of the access that are ignored because they cannot be used.
func (c *Client) Warnings() []string { return slices.Concat(c.warnings, c.credentials.Warnings) }

// Credentials says which credentials the registry of an image gets.
func (c *Client) Credentials(repository string) string {
	named, err := reference.ParseNamed(repository)
	if err != nil {
		return "without credentials" // no registry is asked for such a name
	}
	return realm.Used(c.sys, named)
}

// Close ends early fetches and removes the client's files.
func (c *Client) Close() error {
	if f := c.early.take(); f != nil {
		f.abort()
	}
	c.documents.file.Close()
	return c.credentials.Close()
}

var statusText = regexp.MustCompile(`StatusCode: (\d{3})`)

// classify adds a sentinel to an error of the library, one for each cure.
func classify(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.Is(err, ErrDigest) || errors.Is(err, ErrLocal) || errors.Is(err, ErrIncomplete) ||
		errors.Is(err, ErrRegistry) {
		return err
	}
	if errors.Is(err, ErrBlocked) || errors.Is(err, ErrAccess) || errors.Is(err, realm.ErrCredentials) {
		return err
	}
	if errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnauthorized) || errors.Is(err, ErrPolicy) {
		return err
	}
	var requirement signature.PolicyRequirementError
	if errors.As(err, &requirement) {
		return fmt.Errorf("%w: %w", ErrPolicy, err)
	}
	switch statusOf(err) {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return unusable(err)
}

// answerError is an error with the status of the answer that it is about.
type answerError struct {
	error
	status int
}

func (e answerError) Unwrap() error { return e.error }

// withStatus adds the status of an answer to an error about it. The library drops it if the body has an error code.
func withStatus(status int, err error) error {
	if err == nil || status < http.StatusBadRequest {
		return err
	}
	return answerError{err, status}
}

// statusOf returns the HTTP status that an error is about, or 0: that of the answer, if it is known, else what the
// library says of it.
func statusOf(err error) int {
	var answer answerError
	var unexpected docker.UnexpectedHTTPStatusError
	var coded errcode.ErrorCoder
	var refused docker.ErrUnauthorizedForCredentials
	switch {
	case err == nil:
		return 0
	case errors.As(err, &answer):
		return answer.status
	case errors.As(err, &refused):
		return http.StatusUnauthorized
	case errors.As(err, &unexpected):
		return unexpected.StatusCode
	case errors.As(err, &coded):
		return coded.ErrorCode().Descriptor().HTTPStatusCode
	}
	// The library's error for a response without JSON has no exported type.
	if m := statusText.FindStringSubmatch(err.Error()); m != nil {
		status, _ := strconv.Atoi(m[1]) // three digits
		return status
	}
	return 0
}

// unknownCode reports whether an error is about a body with an error code that the library does not know, or with none.
func unknownCode(err error) bool {
	var coded errcode.ErrorCoder
	return errors.As(err, &coded) && coded.ErrorCode().Descriptor().Code == errcode.ErrorCodeUnknown
}

// certificateText is in the texts of crypto/tls.CertificateVerificationError.
const certificateText = "tls: failed to verify certificate"

// causes of errors of registries, by what is in their texts: the library drops the types of the
// errors of mirrors.
var causes = []struct {
	text string
	err  error
}{
	{certificateText, ErrCertificate}, {http.ErrSchemeMismatch.Error(), ErrPlainHTTP}, {realm.Text, ErrRealm},
	{"tls: certificate required", ErrClientCertificate}, {"remote error: tls: bad certificate", ErrClientCertificate},
	{"remote error: tls: handshake failure", ErrClientCertificate}, {"missing key ", ErrKeyPair},
	{"missing client certificate ", ErrKeyPair}, {"tls: private key does not match public key", ErrKeyPair},
}

// anyHost stands in hints for the registry, if it is not known.
const anyHost = "HOST[:PORT]"

// registryText is how errors of the library and of package realm name a registry.
var registryText = regexp.MustCompile(`container registry (\S+?):? `)

// unusable adds to ErrRegistry why the registry cannot be used, and which one it is.
func unusable(err error) error {
	for _, cause := range causes {
		before, _, found := strings.Cut(err.Error(), cause.text)
		if !found {
			continue
		}
		err = fmt.Errorf("%w: %w: %w", ErrRegistry, cause.err, err)
		if named := registryText.FindAllStringSubmatch(before, -1); named != nil {
			known := fault.Of(cause.err)
			return fault.With(err, known.Exit, strings.ReplaceAll(known.Hint, anyHost, named[len(named)-1][1]))
		}
		return err
	}
	return fmt.Errorf("%w: %w", ErrRegistry, err)
}
