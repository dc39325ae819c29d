package stores_test

import (
	"context"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// CRI-O has images in its own store that stand on layers of the appliance's: pulled over them, or by another name. The store is
// gone when CRI-O starts the next time: CRI-O lists its images, and runs those that are whole; once the store is back, all
// images are, without a registry. `pinbox-node mount` may be killed at any moment.
func TestStoreGoneBelowOtherImages(t *testing.T) {
	t.Parallel()
	s, registry, _ := newOnlineSystem(t, 2)
	s.mustRun("firstboot")
	app := imageIn(t, s.pins[0][1])
	alias := pushImage(t, registry, "alias/app", app) // by another name: a record without layers
	pulled := s.pins[1][1]                            // over layers of the store
	whole := pushImage(t, registry, "site/whole", overAnotherLayer(t, app, imageIn(t, stackIn(t, registry))))
	s.WriteSet("more.yaml", sample.SetNamed("more", alias, pulled, whole))
	s.mustRun("firstboot")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	pause := "[crio.image]\npause_image = \"" + whole + "\"\n" // the usual one goes with the store
	write(t, s.Etc("crio.conf.d/10-pause"), pause)

	gone := func() { s.Run("sh", "-c", "while umount /var/lib/pinbox/stores/0 2>/dev/null; do :; done") }
	back := func() { s.MountUnit("var-lib-pinbox-stores-0.mount") }
	k, kills := fixtures.NewKiller(t), fixtures.Soak(t, 6)
	for n := 0; k.Kills() < kills; n++ {
		s.Stop(syscall.SIGKILL)
		gone()
		k.Kill("mount", s.Pinbox("mount"))
		if n%2 == 0 {
			back()
			k.Kill("mount", s.Pinbox("mount"))
			gone()
		}
		s.Do("mount") // exit code 1: the store is not there
		s.Start()
		s.wantImages("gone", []string{whole}, []string{alias, pulled})
		s.runsEnd(whole)
		status := s.Do("status")
		for _, name := range []string{alias, pulled} {
			if want := "was set aside, since a store with layers below it is gone: " + name; !strings.Contains(status.Out, want) {
				t.Errorf("got the status\n%s\nwant %q", status.Out, want)
			}
		}

		s.Stop(syscall.SIGTERM)
		back()
		k.Kill("mount", s.Pinbox("mount"))
		if n%2 == 0 {
			s.mustRun("mount")
			s.Start()
		} else { // CRI-O runs already, and reads again what has changed
			s.Start()
			s.mustRun("firstboot")
		}
		s.wantImages("back", []string{whole, alias, pulled}, nil)
		s.runsEnd(pulled, alias)
		if status := s.Do("status"); status.Code != 0 || strings.Contains(status.Out, "set aside") {
			t.Errorf("got the status\n%s\nwant nothing set aside, and exit code 0", status.Out)
		}
		if t.Failed() {
			t.Fatalf("after %v, %d kills", k.Killed, k.Kills())
		}
	}
	t.Logf("killed: %v, ended: %d", k.Killed, k.Ended)
}

// While the store is gone and CRI-O has started without `pinbox-node mount`, a pass says which image stops it from listing any;
// with a registry, the next start heals all.
func TestStoreGoneWithARegistry(t *testing.T) {
	t.Parallel()
	s, _, _ := newOnlineSystem(t, 2)
	s.WriteSet("more.yaml", sample.SetNamed("more", s.pins[1]...))
	s.mustRun("firstboot")
	s.Stop(syscall.SIGKILL)
	s.Run("umount", "/var/lib/pinbox/stores/0")
	s.Start()
	s.WriteSet("later.yaml", sample.SetNamed("later", s.pins[0][1]))
	s.wantExit(1, "an image in CRI-O's own store needs a store that is not there: "+registryOf(s.pins[1][1]), "firstboot")
	s.wantDropin(append(slices.Clone(s.pins[0]), s.pins[1]...))
	s.Stop(syscall.SIGTERM)
	s.Do("mount")
	s.Start()
	s.Do("firstboot") // exit code 1: the store is not there
	s.wantImages("pulled", append(slices.Clone(s.pins[0]), s.pins[1]...), nil)
	s.checkContainer(1)
	s.checkContainer(0)
}

// registryOf is the host and port of a pin.
func registryOf(pin string) string { return strings.Split(pin, "/")[0] }

// wantImages checks that CRI-O lists images within a second, and lacks others.
func (s *testSystem) wantImages(when string, want, not []string) {
	s.t.Helper()
	list, err := s.Images().ListImages(s.t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		s.t.Fatalf("%s: %v", when, err)
	}
	found := map[string]bool{}
	for _, img := range list.Images {
		for _, name := range img.RepoDigests {
			found[name] = true
		}
	}
	for _, name := range want {
		if !found[name] {
			s.t.Errorf("%s: got no image %s, want it listed", when, name)
		}
	}
	for _, name := range not {
		if found[name] {
			s.t.Errorf("%s: got the image %s, want it set aside", when, name)
		}
	}
}

// runsEnd runs a container of each image, and waits until it ends.
func (s *testSystem) runsEnd(pins ...string) {
	s.t.Helper()
	for _, pin := range pins {
		id, _ := s.RunContainer(pin, "show", "/release")
		if code := s.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
			s.t.Errorf("%s: got exit code %d, want 0", pin, code)
		}
		s.removeContainer(id)
	}
}

// imageIn is an image in a registry on loopback.
func imageIn(t *testing.T, pin string) v1.Image {
	t.Helper()
	ref, err := name.ParseReference(pin, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	img, err := remote.Image(ref, remote.WithContext(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// stackIn pushes an image that shares no layer with others.
func stackIn(t *testing.T, r *sample.Registry) string {
	t.Helper()
	pin, err := r.PushStack(t.Context(), "site/base", 1000)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}

// overAnotherLayer is an image whose layers stand on those of another one, so that they share none of its IDs.
func overAnotherLayer(t *testing.T, img, base v1.Image) v1.Image {
	t.Helper()
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	made := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, of := range []v1.Image{base, img} {
		layers, err := of.Layers()
		if err == nil {
			made, err = mutate.AppendLayers(made, layers...)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	own, err := made.ConfigFile()
	if err == nil {
		own = own.DeepCopy()
		own.Architecture, own.OS, own.Config = config.Architecture, config.OS, config.Config
		made, err = mutate.ConfigFile(made, own)
	}
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func pushImage(t *testing.T, r *sample.Registry, repository string, img v1.Image) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	pin, err := r.Push(ctx, repository, img)
	if err != nil {
		t.Fatal(err)
	}
	return pin
}
