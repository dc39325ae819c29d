package resolve_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// release pushes a release with the components rhel-coreos, cli, must-gather, which is the image of cli, and pod.
func (r *registry) release(version string) sample.Release {
	r.t.Helper()
	pushed, err := r.PushRelease(r.t.Context(), version, 4)
	if err != nil {
		r.t.Fatal(err)
	}
	r.known(pushed.Pin, version)
	for _, name := range []string{"rhel-coreos", "cli", "pod"} {
		r.known(pushed.Components[name], name)
	}
	return pushed
}

func ocp(release source.RequestedRelease) source.Content {
	release.Set = "ocp"
	return source.Content{Releases: []source.RequestedRelease{release}}
}

// The payload of a release lists its images; there is a set for each pool.
func TestRelease(t *testing.T) {
	r := newRegistry(t)
	pushed := r.release("4.99.1")
	for name, c := range map[string]struct {
		release source.RequestedRelease
		want    []string
	}{
		"all that CRI-O pulls": {
			source.RequestedRelease{Release: source.Release{Image: pushed.Tag}},
			[]string{
				`set ocp-4.99.1-master for "master": payload@cli payload@pod release@4.99.1`,
				`set ocp-4.99.1-worker for "worker": payload@cli payload@pod release@4.99.1`,
				"image payload@cli: tags [], from [PinnedImageSet/ocp-4.99.1-master PinnedImageSet/ocp-4.99.1-worker " +
					"release/4.99.1/cli release/4.99.1/must-gather]",
				"image payload@pod: tags [], from [PinnedImageSet/ocp-4.99.1-master PinnedImageSet/ocp-4.99.1-worker " +
					"release/4.99.1/pod]",
				"image release@4.99.1: tags [release:4.99.1-x86_64], " +
					"from [PinnedImageSet/ocp-4.99.1-master PinnedImageSet/ocp-4.99.1-worker release/4.99.1]",
			},
		},
		"one component for one pool": {
			source.RequestedRelease{
				Release: source.Release{Image: pushed.Pin, Components: source.Components{Include: []string{"pod"}}},
				Group:   source.Group{Pools: []string{"infra"}},
			},
			[]string{
				`set ocp-4.99.1-infra for "infra": payload@pod release@4.99.1`,
				"image payload@pod: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1/pod]",
				"image release@4.99.1: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1]",
			},
		},
		"the operating system, without a component and one that oc-mirror left out": {
			source.RequestedRelease{
				Release: source.Release{
					Image: pushed.Pin, MachineOS: new(true), Components: source.Components{Exclude: []string{"must-gather"}},
				},
				Group:   source.Group{Pools: []string{"infra"}},
				Blocked: func(name string) bool { return name == pushed.Components["pod"] },
			},
			[]string{
				`set ocp-4.99.1-infra for "infra": payload@cli payload@rhel-coreos release@4.99.1`,
				"image payload@cli: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1/cli]",
				"image payload@rhel-coreos: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1/rhel-coreos]",
				"image release@4.99.1: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) { r.check(t, ocp(c.release), pinset.Lock{}, c.want) })
	}
}

// The digest of a release by a tag of oc-mirror comes from the lock. The release of the digest is read then.
func TestLockedRelease(t *testing.T) {
	r := newRegistry(t)
	before, now := r.release("4.99.1"), r.release("4.99.2")
	pinned := r.known(before.Pin, "4.99.1")
	lock := locked(pinned, "stable")
	tag := pinned.Repository + ":stable"
	release := source.Release{Image: now.Pin, Components: source.Components{Include: []string{"pod"}}}
	group := source.Group{Pools: []string{"infra"}}
	want := func(version string) []string {
		set := "ocp-" + version + "-infra"
		return []string{
			"set " + set + ` for "infra": payload@pod release@` + version,
			"image payload@pod: tags [], from [PinnedImageSet/" + set + " release/" + version + "/pod]",
			"image release@" + version + ": tags [release:stable], from [PinnedImageSet/" + set + " release/" + version + "]",
		}
	}
	local := r.mirror(pinned, r.known(now.Pin, "4.99.2"), r.known(now.Components["pod"], "pod"))
	for name, c := range map[string]struct {
		images *storage.Distribution
		lock   pinset.Lock
		want   []string
	}{
		"in a registry, no lock": {nil, pinset.Lock{}, want("4.99.2")},
		"in a registry":          {nil, lock, want("4.99.1")},
		"local, no lock":         {local, pinset.Lock{}, want("4.99.2")},
		"local":                  {local, lock, want("4.99.1")},
	} {
		t.Run(name, func(t *testing.T) {
			r.check(t, ocp(source.RequestedRelease{Group: group, Release: release, Tag: tag, Images: c.images}), c.lock, c.want)
		})
	}
}

// A local release needs no registry.
func TestLocalRelease(t *testing.T) {
	r := newRegistry(t)
	pushed := r.release("4.99.1")
	local := r.mirror(r.known(pushed.Pin, "4.99.1"), r.known(pushed.Components["pod"], "pod"))
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.check(t, ocp(source.RequestedRelease{
		Group: source.Group{Pools: []string{"infra"}}, Images: local,
		Release: source.Release{Image: pushed.Pin, Components: source.Components{Include: []string{"pod"}}},
	}), pinset.Lock{}, []string{
		`set ocp-4.99.1-infra for "infra": payload@pod release@4.99.1`,
		"image payload@pod: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1/pod]",
		"image release@4.99.1: tags [], from [PinnedImageSet/ocp-4.99.1-infra release/4.99.1]",
	})
}

// references returns the list of a release's components, as oc-mirror keeps it beside the images.
func references(t *testing.T, release sample.Release) []byte {
	t.Helper()
	type from struct{ Kind, Name string }
	type tag struct {
		Name string
		From from
	}
	var tags []tag
	for name, pin := range release.Components {
		tags = append(tags, tag{name, from{"DockerImage", pin}})
	}
	content, err := json.Marshal(map[string]any{
		"kind": "ImageStream", "metadata": map[string]string{"name": "4.99.1"}, "spec": map[string]any{"tags": tags},
	})
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRefusedReleases(t *testing.T) {
	r := newRegistry(t)
	pushed := r.release("4.99.1")
	image := r.image("amd64", "a@A")
	key := filepath.Join(t.TempDir(), "key.asc")
	for name, c := range map[string]struct {
		release source.RequestedRelease
		want    error
		texts   []string
	}{
		"another image": {
			source.RequestedRelease{Release: source.Release{Image: image.String()}},
			source.ErrRelease, []string{image.String()},
		},
		"no such tag": {
			source.RequestedRelease{Release: source.Release{Image: pushed.Tag + "0"}},
			storage.ErrNotFound, []string{"resolve " + pushed.Tag + "0"},
		},
		"no such component": {
			source.RequestedRelease{Release: source.Release{
				Image: pushed.Pin, Components: source.Components{Include: []string{"clu"}},
			}},
			source.ErrComponent, []string{pushed.Pin, "clu"},
		},
		"signature that is not verified": {
			source.RequestedRelease{Release: source.Release{
				Image: pushed.Pin, Signatures: source.Signatures{Keys: []string{key}, Files: []string{key}},
			}},
			os.ErrNotExist, []string{"release " + pushed.Pin, key},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, ocp(c.release), pinset.Lock{}, progress.Hooks{})
			checkError(t, err, c.want, c.texts...)
		})
	}
}

// All images that are missing in the local files are reported.
func TestIncompleteLocalReleases(t *testing.T) {
	r := newRegistry(t)
	pushed, image := r.release("4.99.1"), r.image("amd64", "a@A")
	cli, pod := pushed.Components["cli"], pushed.Components["pod"]
	const missing = ": some of its blobs are missing"
	releaseOnly, nothing := r.mirror(r.known(pushed.Pin, "4.99.1")), r.mirror(image)
	for name, c := range map[string]struct {
		release source.RequestedRelease
		texts   []string
	}{
		"without components": {
			source.RequestedRelease{Release: source.Release{Image: pushed.Pin}, Images: releaseOnly}, []string{cli + missing, pod + missing},
		},
		"without the release image and components": {
			source.RequestedRelease{
				Release: source.Release{Image: pushed.Pin}, Images: nothing, References: references(t, pushed),
				Blocked: func(name string) bool { return name == pod },
			},
			[]string{pushed.Pin + missing, cli + missing},
		},
		"without the release image and the list of components": {
			source.RequestedRelease{Release: source.Release{Image: pushed.Pin}, Images: nothing}, []string{pushed.Pin + missing},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, ocp(c.release), pinset.Lock{}, progress.Hooks{})
			checkError(t, err, storage.ErrIncomplete, c.texts...)
			if c.release.Blocked != nil && strings.Contains(err.Error(), pod) {
				t.Errorf("got %s in the error %v, want none: oc-mirror left it out", pod, err)
			}
		})
	}
	t.Run("two releases without components, and one that is in no registry", func(t *testing.T) {
		other := r.release("4.99.2")
		withOne := func(pin, component string, images *storage.Distribution) source.RequestedRelease {
			return source.RequestedRelease{Images: images, Group: source.Group{Set: "ocp"}, Release: source.Release{
				Image: pin, Components: source.Components{Include: []string{component}},
			}}
		}
		_, err := resolved(t, source.Content{Releases: []source.RequestedRelease{
			withOne(pushed.Pin, "cli", releaseOnly),
			withOne(other.Pin, "pod", r.mirror(r.known(other.Pin, "4.99.2"))),
			{Group: source.Group{Set: "ocp"}, Release: source.Release{Image: pushed.Tag + "0"}},
		}}, pinset.Lock{}, progress.Hooks{})
		checkError(t, err, storage.ErrIncomplete, cli+missing, pod+missing, "resolve "+pushed.Tag+"0")
	})
}

// Components that are not wanted are not missing. A bug was to report rhel-coreos without machineOS, and
// components that include and exclude leave out.
func TestUnwantedComponentsAreNotMissing(t *testing.T) {
	r := newRegistry(t)
	pushed := r.release("4.99.1")
	for name, c := range map[string]struct {
		machineOS  bool
		components source.Components
		want       []string
	}{
		"all":                 {false, source.Components{}, []string{"cli", "must-gather", "pod"}},
		"all, with machineOS": {true, source.Components{}, []string{"cli", "must-gather", "pod", "rhel-coreos"}},
		"include":             {false, source.Components{Include: []string{"pod", "rhel-coreos"}}, []string{"pod", "rhel-coreos"}},
		"exclude":             {false, source.Components{Exclude: []string{"p*"}}, []string{"cli", "must-gather"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, ocp(source.RequestedRelease{
				Release: source.Release{Image: pushed.Pin, MachineOS: &c.machineOS, Components: c.components},
				Images:  r.mirror(), References: references(t, pushed),
			}), pinset.Lock{}, progress.Hooks{})
			checkError(t, err, storage.ErrIncomplete, pushed.Pin)
			for component, pin := range pushed.Components {
				if got, want := strings.Contains(err.Error(), pin), slices.Contains(c.want, component); got != want {
					t.Errorf("got %v for %s reported as missing, want %v: %v", got, component, want, err)
				}
			}
		})
	}
}
