package builder_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage"
)

// noRegistry is the host of a registry that does not exist.
const noRegistry = "quay.example.com"

// mirrors writes a file with an object of the kind that has one rule.
func mirrors(t *testing.T, kind, list, source, mirror, policy string) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mirrors.yaml")
	content := fmt.Sprintf("apiVersion: config.openshift.io/v1\nkind: %s\nmetadata: {name: x}\nspec:\n  %s:\n"+
		"  - {source: '%s', mirrors: ['%s'], mirrorSourcePolicy: %s}\n", kind, list, source, mirror, policy)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return []string{path}
}

func digestMirrors(t *testing.T, source, mirror, policy string) []string {
	t.Helper()
	return mirrors(t, "ImageDigestMirrorSet", "imageDigestMirrors", source, mirror, policy)
}

// Images of a registry that cannot be reached are fetched from its mirror, and have their own names. CRI-O
// pulls later images in the same way.
func TestImagesOfAMirror(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	own := func(pin string) string { return strings.Replace(pin, registry.Host, noRegistry, 1) }
	o := options(t, sample.Set("worker", own(pins.Pause), own(pins.Mixed), own(pins.Index)))
	o.Appliance.Spec.Mirrors = digestMirrors(t, noRegistry, registry.Host, "NeverContactSource")
	n := appliance.Boot(t, o, own(pins.Pause))
	dropin, err := os.ReadFile(filepath.Join(n.Root, provision.RegistriesPath))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		n.Path("registries.conf.d/50-pinbox-mirrors.conf"): dropin, // this CRI-O reads that folder
		n.Etc("crio.conf.d/20-plain-http"): fmt.Appendf(nil, "[crio.image]\ninsecure_registries = [%q]\n",
			noRegistry),
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	for _, img := range lock.Images {
		if !strings.HasPrefix(img.Pin, noRegistry+"/") {
			t.Errorf("got the pin %s, want one of %s", img.Pin, noRegistry)
		}
	}
	later := own(pins.Other)
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: later}}); err != nil {
		t.Fatal(err)
	}
	status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: later}})
	if err != nil || status.Image == nil || !slices.Contains(status.Image.RepoDigests, later) {
		t.Errorf("got %v, %v; want the image %s", status.GetImage(), err, later)
	}
}

// An image by tag and its layers are fetched from a mirror for tags, whether the tag is resolved or
// locked.
func TestTagsOfAMirror(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	tagged(t, pins.Mixed, registry.Host+"/tools/app:1.2")
	tag := noRegistry + "/tools/app:1.2"
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Images{tag}}}
	o.Appliance.Spec.Mirrors = mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", "*.example.com", registry.Host,
		"NeverContactSource")
	build(t, o)
	lock := appliance.Lock(t, o.Out)
	if img := lock.ByTag()[tag]; img.Repository != noRegistry+"/tools/app" {
		t.Errorf("got %+v for %s, want the repository %s/tools/app", img, tag, noRegistry)
	}
	again := o
	again.Out, again.Lock, again.Locked = filepath.Join(t.TempDir(), "out"), lock, true
	build(t, again)

	// After the tag has moved, a mirror for tags cannot provide the locked digest.
	tagged(t, pins.Docker, registry.Host+"/tools/app:1.2")
	if _, _, err := builder.Plan(t.Context(), again); !errors.Is(err, storage.ErrBlocked) {
		t.Errorf("got %v, want %v", err, storage.ErrBlocked)
	}
}

// Images that a mirror does not have are fetched from the source, unless the policy forbids it: then the
// source gets no request, and all missing images are reported together.
func TestImagesMissingOnAMirror(t *testing.T) {
	t.Parallel()
	registry, access := appliance.Registry(t)
	pins, err := registry.Fill(t.Context(), []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	mirror, atMirror := appliance.Registry(t)
	for policy, want := range map[string]error{"AllowContactingSource": nil, "NeverContactSource": storage.ErrBlocked} {
		t.Run(policy, func(t *testing.T) {
			access.Take()
			atMirror.Take()
			o := options(t, sample.Set("worker", pins.Pause, pins.Mixed))
			o.Appliance.Spec.Mirrors = digestMirrors(t, registry.Host+"/sample", mirror.Host+"/sample", policy)
			_, _, err := builder.Plan(t.Context(), o)
			if !errors.Is(err, want) || want != nil && (!strings.Contains(err.Error(), pins.Pause) ||
				!strings.Contains(err.Error(), pins.Mixed) || strings.Contains(err.Error(), os.TempDir())) {
				t.Errorf("got %v, want %v with both pins and without a temporary file", err, want)
			}
			if asked := len(access.Take()) > 0; asked != (want == nil) {
				t.Errorf("got %v for a request to the source, want %v", asked, want == nil)
			}
			if len(atMirror.Take()) == 0 {
				t.Error("got no request to the mirror, want one")
			}
		})
	}
	if err := mirror.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", pins.Pause))
	o.Appliance.Spec.Mirrors = digestMirrors(t, registry.Host, mirror.Host, "NeverContactSource")
	if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, storage.ErrRegistry) ||
		!strings.Contains(err.Error(), mirror.Host) {
		t.Errorf("got %v for a mirror that cannot be reached, want %v with its host", err, storage.ErrRegistry)
	}
}
