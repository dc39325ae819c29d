package builder_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// tagged adds a tag to a pushed image.
func tagged(t *testing.T, pin, name string) {
	t.Helper()
	fixtures.Run(t, "skopeo", "copy", "--quiet", "--all", "--preserve-digests", "--src-tls-verify=false",
		"--dest-tls-verify=false", "docker://"+pin, "docker://"+name)
}

// named returns the options of an appliance of images that are given by name.
func named(t *testing.T, registry *sample.Registry, pins sample.Pins) (o builder.Options, tag string) {
	t.Helper()
	tag = registry.Host + "/tools/app:1.2"
	tagged(t, pins.Mixed, tag)
	list := filepath.Join(t.TempDir(), "list.txt")
	if err := os.WriteFile(list, []byte("# for every pod\n"+pins.Pause+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	o = options(t, pins.Sets())
	o.Appliance.Spec.Sources = []source.Entry{
		{Source: &source.Images{tag}}, {Source: &source.ImageLists{list}, Set: "base", Pools: []string{"worker", "infra"}},
	}
	return o, tag
}

// An image that is given by a tag is pinned, and runs by that tag without a registry.
func TestImagesByName(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o, tag := named(t, registry, pins)
	pod := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(pod, []byte("kind: Pod\nspec: {initContainers: [{image: '"+pins.Docker+"'}]}\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.Manifests{Paths: []string{pod}}, Set: "pods"})
	n := appliance.Boot(t, o, pins.Pause)
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	checkImages(t, n, appliance.Lock(t, o.Out))
	status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: tag}})
	if err != nil || status.Image == nil || !status.Image.Pinned || !slices.Equal(status.Image.RepoTags, []string{tag}) {
		t.Errorf("got %v, %v; want a pinned image with the tag %s", status.GetImage(), err, tag)
	}
	for _, image := range []string{tag, pins.Docker} {
		id, _ := n.RunContainer(image)
		if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
			t.Errorf("got exit code %d of %s, want 0", code, image)
		}
	}
	var sets []string
	for _, s := range appliance.Lock(t, o.Out).Sets {
		sets = append(sets, s.Name)
	}
	if want := []string{"appliance-images", "base-infra", "base-worker", "pods"}; !slices.Equal(sets, want) {
		t.Errorf("got the sets %q, want %q", sets, want)
	}
}
