package registry

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"go.podman.io/image/v5/docker"
	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"

	"github.com/pinbox/pinbox/storage/download"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/realm"
)

// maxManifest is the limit of a manifest in bytes, which registries have too.
const maxManifest = 4 << 20

// ErrDigest is content of a registry with another digest than the one that was requested.
var ErrDigest = errors.New("the content of the registry does not match its digest")

// Client reads manifests. The zero value reads them for this machine's platform, with the
// credentials and mirrors of the host, and has no cache.
type Client struct {
	// AuthFile is CRI-O's global_auth_file; "" means the default files of
	// containers-auth.json(5).
	AuthFile string
	// Insecure are hosts and networks that CRI-O uses without TLS by itself; registries.conf may name more.
	Insecure []string
	// Cache is a folder for manifests, which never change; "" for none. With
	// ReadOnly it is used but not filled.
	Cache    string
	ReadOnly bool
	// RegistriesConf and RegistriesDir replace /etc/containers/registries.conf and
	// registries.conf.d; "" means those.
	RegistriesConf, RegistriesDir string
}

// Resolve reads the manifest of an image, for an index the one of the platform, and returns the
// layers. Their unpacked sizes are unknown.
func (c Client) Resolve(ctx context.Context, img pinset.Image) (pinset.LockedImage, error) {
	sys, err := c.system(img)
	if err != nil {
		return pinset.LockedImage{}, err
	}
	f := fetcher{Client: c, sys: sys, img: img}
	defer f.close()
	locked := pinset.LockedImage{Pin: img.String(), Manifest: img.Digest}
	content, err := f.manifest(ctx, img.Digest)
	if err != nil {
		return pinset.LockedImage{}, err
	}
	if kind := manifest.GuessMIMEType(content); manifest.MIMETypeIsMultiImage(kind) {
		list, err := manifest.ListFromBlob(content, kind)
		if err != nil {
			return pinset.LockedImage{}, err
		}
		locked.Index = img.Digest
		if locked.Manifest, err = list.ChooseInstance(sys); err != nil {
			return pinset.LockedImage{}, err
		}
		if content, err = f.manifest(ctx, locked.Manifest); err != nil {
			return pinset.LockedImage{}, err
		}
	}
	m, err := manifest.FromBlob(content, manifest.GuessMIMEType(content))
	if err != nil {
		return pinset.LockedImage{}, err
	}
	locked.Config = m.ConfigInfo().Digest
	for _, l := range m.LayerInfos() {
		locked.Layers = append(locked.Layers, &pinset.LockedLayer{Digest: l.Digest, Size: l.Size, MediaType: l.MediaType})
	}
	return locked, nil
}

func (c Client) system(img pinset.Image) (*imgtypes.SystemContext, error) {
	if c.AuthFile != "" {
		if _, err := os.Stat(c.AuthFile); err != nil { // the library would use no credentials
			return nil, fmt.Errorf("credentials: %w", err)
		}
	}
	sys := &imgtypes.SystemContext{
		AuthFilePath:                c.AuthFile,
		SystemRegistriesConfPath:    c.RegistriesConf,
		SystemRegistriesConfDirPath: c.RegistriesDir,
		DockerRegistryUserAgent:     "pinbox-node",
	}
	if c.insecure(img) {
		sys.DockerInsecureSkipTLSVerify = imgtypes.OptionalBoolTrue
	}
	return sys, nil
}

// insecure is the rule of CRI-O before 1.35: isSecureIndex in its internal/storage/image.go.
func (c Client) insecure(img pinset.Image) bool {
	host, _, _ := strings.Cut(img.Repository, "/")
	if slices.Contains(c.Insecure, host) {
		return true
	}
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	addresses, err := net.LookupIP(name)
	if err != nil {
		return false // the request will fail with the reason
	}
	for _, network := range c.Insecure {
		_, block, err := net.ParseCIDR(network)
		if err == nil && slices.ContainsFunc(addresses, block.Contains) {
			return true
		}
	}
	return false
}

// fetcher reads the manifests of one image over one connection.
type fetcher struct {
	Client
	sys *imgtypes.SystemContext
	img pinset.Image
	src imgtypes.ImageSource
}

func (f *fetcher) manifest(ctx context.Context, d digest.Digest) ([]byte, error) {
	if content, ok := f.readCache(d); ok {
		return content, nil
	}
	if err := f.open(ctx); err != nil {
		return nil, err
	}
	content, _, err := f.src.GetManifest(ctx, &d)
	if err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d, err)
	}
	if len(content) > maxManifest || digest.FromBytes(content) != d {
		return nil, fmt.Errorf("manifest %s: %w", d, ErrDigest)
	}
	if err := pinset.CheckParts(content); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", d, err)
	}
	f.addToCache(d, content)
	return content, nil
}

// helperTime is how long a helper for credentials may take.
const helperTime = time.Minute

// open opens the image. A password goes to the registry's own domain only.
func (f *fetcher) open(ctx context.Context) error {
	if f.src != nil {
		return nil
	}
	named, err := reference.ParseNamed(f.img.String())
	if err != nil {
		return err
	}
	ref, err := docker.NewReference(named)
	if err != nil {
		return err
	}
	realms, err := realm.Of(ctx, f.sys, ref, helperTime)
	if err != nil {
		return err
	}
	sys := *f.sys
	sys.DockerProxy = realms.Proxy
	src, err := realm.Await(ctx, func() (imgtypes.ImageSource, error) { return ref.NewImageSource(ctx, &sys) },
		func(late imgtypes.ImageSource) { _ = late.Close() }) // it runs helpers for credentials again
	if err != nil {
		return download.Brief(err)
	}
	realms.Guard(src)
	f.src = src
	return nil
}

func (f *fetcher) close() {
	if f.src != nil {
		_ = f.src.Close() // nothing was written
	}
}
