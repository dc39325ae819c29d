package storage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	imgspecv1 "github.com/opencontainers/image-spec/specs-go/v1"
	"go.podman.io/image/v5/image"
	"go.podman.io/image/v5/manifest"
	imgtypes "go.podman.io/image/v5/types"
	"golang.org/x/sync/errgroup"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Reasons why an image cannot be part of an appliance.
var (
	ErrPlatform = fault.New(fault.Input, "image is not for the appliance's platform",
		"pin the index or an image for the platform, or change spec.platform or --platform; --any-architecture NAME "+
			"takes it as it is; images of oc-mirror can be left out with ocMirror.exclude or --oc-mirror-exclude")
	ErrNotImage = fault.New(fault.Input, "not a container image that CRI-O can run",
		"remove it from the inputs (images of oc-mirror: with ocMirror.exclude or --oc-mirror-exclude), or publish "+
			"it again in a current format")
	ErrLayers = fault.New(fault.Input, "image has more layers than a node can mount",
		"squash its layers with `podman build --squash`, or with --squash-all also the layers of its base image")
	ErrArtifact = fault.New(fault.Input, "OCI artifact has too many files",
		"push it again with its files in an archive, such as a tar file")
)

// Resolved is an image with the documents that describe it.
type Resolved struct {
	pinset.LockedImage
	// Image is the pin, parsed.
	Image pinset.Image
	// Index is nil if the pin names a manifest.
	Index, Manifest, Config []byte
	// Signatures of the manifest, as containers/storage stores them.
	Signatures [][]byte
	// Warning says what is odd about the image; "" for nothing.
	Warning string
	// DocumentBytes is the size of all documents and signatures.
	DocumentBytes int64
	Created       time.Time
	// Artifact is set for an OCI artifact; of the other fields only Image and Manifest are set then.
	Artifact *pinset.LockedArtifact

	kept *keptDocuments // instead of Index, Manifest and Config
}

// Resolve fetches the manifests and configurations of the images for the client's platform, and
// verifies their digests. The result has the order of images. No layer is read. resolved is called
// after each image, from several goroutines; it may be nil.
func (c *Client) Resolve(ctx context.Context, images []pinset.Image, resolved func(pinset.Image)) ([]Resolved, error) {
	defer c.layers.forget()
	return each(ctx, c.resolving(), images, func(ctx context.Context, img pinset.Image) (Resolved, error) {
		r, err := c.resolve(ctx, img)
		if err != nil {
			return r, fmt.Errorf("resolve %s: %w", img, err)
		}
		if !c.IsLocal(img) {
			c.early.want(r)
		}
		if resolved != nil {
			resolved(img)
		}
		return r, nil
	})
}

// each calls fetch for atOnce elements at a time. The results have the order of all. It returns
// the errors of all elements, but stops at the first registry that cannot be used: further requests
// would fail too, each after its time-out.
func each[T, R any](ctx context.Context, atOnce int, all []T, fetch func(context.Context, T) (R, error)) ([]R, error) {
	results := make([]R, len(all))
	errs := make([]error, len(all))
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, one := range all {
		if groupCtx.Err() != nil {
			break // each of the others would only fail, and there may be a hundred thousand
		}
		group.Go(func() error {
			results[i], errs[i] = fetch(groupCtx, one)
			if errors.Is(errs[i], ErrRegistry) {
				return errs[i]
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return results, errors.Join(errs...)
}

// TakeAnyArchitecture takes an image that is resolved later, whatever its architecture is.
func (c *Client) TakeAnyArchitecture(img pinset.Image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.anyArch[img] = true
}

func (c *Client) takesAny(img pinset.Image) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.anyArch[img]
}

// resolve fetches each image once.
func (c *Client) resolve(ctx context.Context, img pinset.Image) (Resolved, error) {
	c.mu.Lock()
	r, ok := c.resolved[img]
	c.mu.Unlock()
	if ok {
		return r, nil
	}
	r, err := c.fetch(ctx, img)
	if err == nil {
		c.mu.Lock()
		c.resolved[img] = r
		c.mu.Unlock()
	}
	return r, err
}

func (c *Client) fetch(ctx context.Context, img pinset.Image) (Resolved, error) {
	if err := checkAlgorithm("it", img.Digest); err != nil {
		return Resolved{}, err
	}
	src, err := c.open(ctx, img)
	if err != nil {
		return Resolved{}, err
	}
	defer src.Close()
	raw, mediaType, err := src.GetManifest(ctx, nil)
	if err != nil {
		return Resolved{}, err
	}
	r := Resolved{Image: img, LockedImage: pinset.LockedImage{Pin: img.String(), Manifest: img.Digest}}
	if manifest.MIMETypeIsMultiImage(mediaType) {
		d, err := choose(c.sys, raw, mediaType, c.takesAny(img))
		if err != nil {
			return Resolved{}, err
		}
		if err := checkAlgorithm("its manifest in the index", d); err != nil {
			return Resolved{}, err
		}
		r.Index, r.LockedImage.Index, r.LockedImage.Manifest = raw, img.Digest, d
	}
	unparsed := image.UnparsedInstance(src, &r.LockedImage.Manifest)
	if r.Manifest, mediaType, err = unparsed.Manifest(ctx); err != nil {
		return Resolved{}, err
	}
	if manifest.MIMETypeIsMultiImage(mediaType) {
		return Resolved{}, fmt.Errorf("%w: its index points to another index", ErrNotImage)
	}
	if mediaType == manifest.DockerV2Schema1MediaType || mediaType == manifest.DockerV2Schema1SignedMediaType {
		return Resolved{}, fmt.Errorf("%w: its manifest is of Docker's schema version 1", ErrNotImage)
	}
	if r.Signatures, err = src.signed(ctx, c, r.LockedImage.Manifest, document{r.Manifest, mediaType}); err != nil {
		return Resolved{}, err
	}
	parsed, err := image.FromUnparsedImage(ctx, c.sys, unparsed)
	if err != nil {
		return Resolved{}, fmt.Errorf("%w: %w", ErrNotImage, err)
	}
	if kind := artifactType(parsed.ConfigInfo().MediaType, r.Manifest); kind != "" {
		return src.artifact(ctx, parsed, r, kind)
	}
	if err := checkConfigSize(ctx, src, parsed.ConfigInfo()); err != nil {
		return Resolved{}, err
	}
	if err := c.describe(ctx, parsed, &r); err != nil {
		return Resolved{}, err
	}
	if err := src.checkLayers(r.Layers); err != nil {
		return r, src.explain(ctx, err)
	}
	r.Layers = c.layers.share(r.Layers)
	r.DocumentBytes = int64(len(r.Index) + len(r.Manifest) + len(r.Config))
	for _, s := range r.Signatures {
		r.DocumentBytes += int64(len(s))
	}
	return r, c.documents.keep(&r)
}

// checkAlgorithm refuses a digest of another algorithm: pins have SHA-256; and the ID of an image, which is the digest
// of its configuration, must have 64 digits, or CRI-O panics when it lists images (newExactStorageImageID in
// internal/storage/image_id.go). Only layers may be named by another one.
func checkAlgorithm(what string, d digest.Digest) error {
	if d.Validate() == nil && d.Algorithm() != digest.SHA256 {
		return fmt.Errorf("%w: %s is named by %s, and pinbox supports sha256 only", ErrNotImage, what, d.Algorithm())
	}
	return nil
}

// checkPlatform compares the platform in a configuration with the client's. CRI-O pulls what it is told to, also an
// image for another platform, but its programs do not run: that is an error, unless the image has none, as those of OLM
// have not, which are published for amd64 alone, or an index says that it is for the client's platform, or the user
// takes it (asked). The
// warning is "" if the platforms are equal.
func (c *Client) checkPlatform(config *imgspecv1.Image, listed, asked bool) (warning string, err error) {
	arch := config.Architecture
	if known, ok := map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[arch]; ok { // names of uname(1)
		arch = known
	}
	if (config.OS == "" || config.OS == c.sys.OSChoice) && (arch == "" || arch == c.sys.ArchitectureChoice) {
		return "", nil
	}
	for label := range config.Config.Labels {
		if strings.HasPrefix(label, "operators.operatorframework.io.bundle.") ||
			strings.HasPrefix(label, "operators.operatorframework.io.index.") {
			return "its configuration says " + platformOf(config.Platform) + "; a bundle or a catalog of OLM is data, " +
				"so it is taken", nil
		}
	}
	switch {
	case asked && (config.OS == "" || config.OS == c.sys.OSChoice):
		return "it is for " + platformOf(config.Platform) + ", and is taken by --any-architecture", nil
	case listed:
		return "its configuration says " + platformOf(config.Platform) + ", its index the right platform, so it is taken", nil
	case len(config.Config.Entrypoint)+len(config.Config.Cmd) == 0:
		return "it is for " + platformOf(config.Platform) + "; it has no program to start, so it is taken", nil
	}
	return "", fmt.Errorf("%w: it is for %s", ErrPlatform, platformOf(config.Platform))
}

// checkConfigSize checks the size of a configuration. The library's error does not name it.
func checkConfigSize(ctx context.Context, src *imageSource, config imgtypes.BlobInfo) error {
	if config.Size <= maxManifest {
		return nil
	}
	err := fmt.Errorf("%w: its configuration %s has %d bytes, and the limit of registries is %d", ErrNotImage,
		config.Digest, config.Size, maxManifest)
	if src.isRemote() {
		return err
	}
	return src.explain(ctx, err)
}

// choose returns the digest of the platform's manifest in an index. If it has none and any is true, it returns the one
// for another architecture: for amd64 or, if there is none either, the first.
func choose(sys *imgtypes.SystemContext, raw []byte, mediaType string, any bool) (digest.Digest, error) {
	list, err := manifest.ListFromBlob(raw, mediaType)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrNotImage, err)
	}
	if n := len(list.Instances()); n > layout.MaxListed {
		return "", fmt.Errorf("%w: its index lists %d manifests, and the limit is %d", ErrNotImage, n, layout.MaxListed)
	}
	d, err := list.ChooseInstance(sys)
	if err == nil {
		return d, nil
	}
	var platforms []string
	var other digest.Digest
	for _, d := range list.Instances() {
		i, err := list.Instance(d)
		if err != nil || i.ReadOnly.Platform == nil {
			continue
		}
		p := *i.ReadOnly.Platform
		platforms = append(platforms, platformOf(p))
		if any && p.OS == sys.OSChoice && (other == "" || p.Architecture == "amd64") {
			other = d
		}
	}
	if other != "" {
		return other, nil
	}
	slices.Sort(platforms)
	return "", fmt.Errorf("%w: its index has %s", ErrPlatform, strings.Join(slices.Compact(platforms), ", "))
}

func platformOf(p imgspecv1.Platform) string {
	s := p.OS + "/" + p.Architecture
	if p.Variant != "" {
		s += "/" + p.Variant
	}
	return s
}

// describe sets the fields of r that come from the image's configuration.
func (c *Client) describe(ctx context.Context, img imgtypes.Image, r *Resolved) error {
	info := img.ConfigInfo()
	if info.MediaType != imgspecv1.MediaTypeImageConfig && info.MediaType != manifest.DockerV2Schema2ConfigMediaType {
		return fmt.Errorf("%w: its configuration is of type %q", ErrNotImage, info.MediaType)
	}
	if err := checkAlgorithm("its configuration", info.Digest); err != nil {
		return err
	}
	if info.Digest.Validate() != nil {
		return fmt.Errorf("%w: its configuration has the digest %q", ErrNotImage, info.Digest)
	}
	var err error
	if r.Config, err = img.ConfigBlob(ctx); err != nil {
		return classify(ctx, err)
	}
	r.LockedImage.Config = info.Digest
	if err := pinset.CheckParts(r.Config); err != nil {
		return fmt.Errorf("%w: its configuration: %w", ErrNotImage, err)
	}
	config, err := img.OCIConfig(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotImage, err)
	}
	if r.Warning, err = c.checkPlatform(config, r.Index != nil, c.takesAny(r.Image)); err != nil {
		return err
	}
	if config.Created != nil {
		r.Created = *config.Created
	}
	layers, diffIDs := img.LayerInfos(), config.RootFS.DiffIDs
	if len(layers) != len(diffIDs) {
		return fmt.Errorf("%w: its manifest has %d layers, its configuration %d", ErrNotImage, len(layers), len(diffIDs))
	}
	if len(layers) > layout.MaxLayers {
		return fmt.Errorf("%w: it has %d, and the limit is %d", ErrLayers, len(layers), layout.MaxLayers)
	}
	r.Layers = make([]*pinset.LockedLayer, len(layers))
	for i, l := range layers {
		if strings.HasSuffix(l.MediaType, "+encrypted") {
			return fmt.Errorf("%w: layer %d is encrypted", ErrNotImage, i)
		}
		for _, d := range []digest.Digest{l.Digest, diffIDs[i]} {
			if d.Validate() != nil {
				return fmt.Errorf("%w: layer %d has the digest %q", ErrNotImage, i, d)
			}
		}
		if err := checkAlgorithm(fmt.Sprintf("the content of layer %d", i), diffIDs[i]); err != nil {
			return err
		}
		r.Layers[i] = &pinset.LockedLayer{Digest: l.Digest, Size: l.Size, DiffID: diffIDs[i], MediaType: l.MediaType}
	}
	return nil
}
