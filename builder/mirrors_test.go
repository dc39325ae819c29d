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
	"github.com/pinbox/pinbox/ignition"
	"github.com/pinbox/pinbox/storage"
)

// nowhere is a registry that does not exist.
const nowhere = "quay.example.com"

// mirrors is a file with an object of the kind and one rule.
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

// Images of a registry that is out of reach come from its mirror, under their own
// names; and so does what CRI-O pulls later.
func TestImagesOfAMirror(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	own := func(pin string) string { return strings.Replace(pin, registry.Host, nowhere, 1) }
	o := options(t, sample.Set("worker", own(pins.Pause), own(pins.Mixed), own(pins.Index)))
	o.Appliance.Spec.Mirrors = digestMirrors(t, nowhere, registry.Host, "NeverContactSource")
	n := appliance.Boot(t, o, own(pins.Pause))
	dropin, err := os.ReadFile(filepath.Join(n.Root, ignition.RegistriesPath))
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string][]byte{
		n.Path("registries.conf.d/50-pinbox-mirrors.conf"): dropin, // where this CRI-O looks
		n.Etc("crio.conf.d/20-plain-http"): fmt.Appendf(nil, "[crio.image]\ninsecure_registries = [%q]\n",
			nowhere),
	} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	for _, img := range lock.Images {
		if !strings.HasPrefix(img.Pin, nowhere+"/") {
			t.Errorf("locked as %s", img.Pin)
		}
	}
	later := own(pins.Other)
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: later}}); err != nil {
		t.Fatal(err)
	}
	status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: later}})
	if err != nil || status.Image == nil || !slices.Contains(status.Image.RepoDigests, later) {
		t.Errorf("%v, %v", status.GetImage(), err)
	}
}

// An image by tag comes from a mirror for tags, whether the tag is resolved or
// locked, and its layers too.
func TestTagsOfAMirror(t *testing.T) {
	registry, pins := fixtures.Samples(t)
	tagged(t, pins.Mixed, registry.Host+"/tools/app:1.2")
	tag := nowhere + "/tools/app:1.2"
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Images{tag}}}
	o.Appliance.Spec.Mirrors = mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", "*.example.com", registry.Host,
		"NeverContactSource")
	build(t, o)
	lock := appliance.Lock(t, o.Out)
	if img := lock.ByTag()[tag]; img.Repository != nowhere+"/tools/app" {
		t.Errorf("%s is %+v", tag, img)
	}
	again := o
	again.Out, again.Lock, again.Locked = filepath.Join(t.TempDir(), "out"), lock, true
	build(t, again)

	// The tag is no way to what it was before.
	tagged(t, pins.Docker, registry.Host+"/tools/app:1.2")
	if _, _, err := builder.Plan(t.Context(), again); !errors.Is(err, storage.ErrBlocked) {
		t.Error(err)
	}
}

// What mirrors lack comes from the source, unless the policy forbids it: then the
// source gets no request, and all that is missing is said at once.
func TestMirrorThatLacksAnImage(t *testing.T) {
	registry, access := appliance.Registry(t)
	pins, err := registry.Fill(t.Context(), []byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	mirror, atMirror := appliance.Registry(t)
	for policy, want := range map[string]error{"AllowContactingSource": nil, "NeverContactSource": storage.ErrBlocked} {
		access.Take()
		atMirror.Take()
		o := options(t, sample.Set("worker", pins.Pause, pins.Mixed))
		o.Appliance.Spec.Mirrors = digestMirrors(t, registry.Host+"/sample", mirror.Host+"/sample", policy)
		_, _, err := builder.Plan(t.Context(), o)
		if !errors.Is(err, want) || want != nil && (!strings.Contains(err.Error(), pins.Pause) ||
			!strings.Contains(err.Error(), pins.Mixed) || strings.Contains(err.Error(), os.TempDir())) {
			t.Errorf("%s: %v", policy, err)
		}
		if asked := len(access.Take()) > 0; asked != (want == nil) {
			t.Errorf("%s: the source was asked: %v", policy, asked)
		}
		if len(atMirror.Take()) == 0 {
			t.Errorf("%s: the mirror was not asked", policy)
		}
	}
	if err := mirror.Close(); err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", pins.Pause))
	o.Appliance.Spec.Mirrors = digestMirrors(t, registry.Host, mirror.Host, "NeverContactSource")
	if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, storage.ErrRegistry) ||
		!strings.Contains(err.Error(), mirror.Host) {
		t.Errorf("a mirror out of reach: %v", err)
	}
}
