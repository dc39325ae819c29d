package resolve_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// registry knows the short names of the images in it, by which tests describe results.
type registry struct {
	t *testing.T
	*sample.Registry
	*fixtures.Access
	short []string // pairs: a text, and what replaces it
	// layers are the blobs of the images' layers.
	layers map[pinset.Image]string
}

func newRegistry(t *testing.T) *registry {
	t.Helper()
	r, access := appliance.Registry(t)
	return &registry{t: t, Registry: r, Access: access, layers: map[pinset.Image]string{}, short: []string{
		r.Host + "/openshift-release-dev/ocp-release", "release",
		r.Host + "/openshift-release-dev/ocp-v4.0-art-dev", "payload", r.Host + "/test/", "",
	}}
}

// image pushes an image, by digest and by tags. Its name is repository@content.
func (r *registry) image(arch, name string, tags ...string) pinset.Image {
	r.t.Helper()
	repository, content, _ := strings.Cut(name, "@")
	repository = "test/" + repository
	layer, err := sample.TarLayer(sample.File("content", content))
	if err != nil {
		r.t.Fatal(err)
	}
	img, err := sample.Image(arch, false, layer)
	if err != nil {
		r.t.Fatal(err)
	}
	pin, err := r.Push(r.t.Context(), repository, img)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, tag := range tags {
		if _, err := r.Tag(r.t.Context(), repository, tag, img); err != nil {
			r.t.Fatal(err)
		}
	}
	d, err := layer.Digest()
	if err != nil {
		r.t.Fatal(err)
	}
	pinned := r.known(pin, content)
	r.layers[pinned] = d.String()
	return pinned
}

// known parses a pin, and notes the short name of its digest.
func (r *registry) known(pin, name string) pinset.Image {
	r.t.Helper()
	img, err := pinset.ParseImage(pin)
	if err != nil {
		r.t.Fatal(err)
	}
	r.short = append(r.short, img.Digest.String(), name)
	return img
}

// name returns an image's name in the registry, of the part after "test/".
func (r *registry) name(name string) pinset.Reference {
	r.t.Helper()
	ref, err := pinset.ParseReference(r.Host + "/test/" + name)
	if err != nil {
		r.t.Fatal(err)
	}
	return ref
}

// named returns named images for a set, and for its pools.
func (r *registry) named(set, pools string, names ...string) source.NamedImages {
	r.t.Helper()
	all := source.NamedImages{Group: source.Group{Set: set, Pools: strings.Fields(pools)}, Origin: "list.txt"}
	for _, name := range names {
		all.Names = append(all.Names, source.Named{Reference: r.name(name)})
	}
	return all
}

// describe describes a result: a line for each set, each image and each warning.
func (r *registry) describe(got resolve.Result) (lines []string) {
	short := strings.NewReplacer(r.short...)
	for _, s := range got.Sets {
		var images []string
		for _, img := range s.Images {
			images = append(images, short.Replace(img.String()))
		}
		slices.Sort(images)
		lines = append(lines, fmt.Sprintf("set %s for %q: %s", s.Name, s.Labels[pinset.RoleLabel], strings.Join(images, " ")))
	}
	var images []string
	for _, img := range got.Images {
		images = append(images, short.Replace(fmt.Sprintf("image %s: tags %v, from %v", img.Pin, img.Tags, img.From)))
	}
	slices.Sort(images)
	lines = append(lines, images...)
	for _, w := range got.Warnings {
		lines = append(lines, "warning: "+short.Replace(w))
	}
	return lines
}

// resolved resolves material.
func resolved(
	t *testing.T, material source.Content, lock pinset.Lock, hooks progress.Hooks,
) (resolve.Result, error) {
	t.Helper()
	client, err := storage.NewClient(storage.Access{Insecure: []string{"127.0.0.1"}}, "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	return resolve.Resolve(t.Context(), client, material, lock, hooks)
}

// check compares the description of a result.
func (r *registry) check(t *testing.T, material source.Content, lock pinset.Lock, want []string) {
	t.Helper()
	got, err := resolved(t, material, lock, progress.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, r.describe(got)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
}

// locked returns a lock with one image and a tag of it.
func locked(img pinset.Image, tag string) pinset.Lock {
	return pinset.Lock{Images: []pinset.LockedImage{{Pin: img.String(), Tags: []string{img.Repository + ":" + tag}}}}
}

// Images that are in no set of a file are put in generated sets.
func TestSets(t *testing.T) {
	r := newRegistry(t)
	a, b := r.image("amd64", "a@A", "1", "2"), r.image("amd64", "b@B", "1")
	worker := map[string]string{pinset.RoleLabel: "worker"}
	file := pinset.Set{Name: "file", Images: []pinset.Image{b, a}, Labels: worker}
	for name, c := range map[string]struct {
		sets  []pinset.Set
		named []source.NamedImages
		want  []string
	}{
		"the set of a file": {
			[]pinset.Set{file}, nil,
			[]string{
				`set file for "worker": a@A b@B`,
				"image a@A: tags [], from [PinnedImageSet/file]", "image b@B: tags [], from [PinnedImageSet/file]",
			},
		},
		"two tags of one image, in one set": {
			nil, []source.NamedImages{r.named("x", "", "b:1", "a:2"), r.named("x", "", "a:1")},
			[]string{
				`set x for "": a@A b@B`,
				"image a@A: tags [a:1 a:2], from [PinnedImageSet/x]",
				"image b@B: tags [b:1], from [PinnedImageSet/x]",
			},
		},
		"a tag beside a digest": {
			nil, []source.NamedImages{r.named("x", "", "b:1@"+b.Digest.String())},
			[]string{`set x for "": b@B`, "image b@B: tags [], from [PinnedImageSet/x]"},
		},
		"one image in several sets": {
			nil, []source.NamedImages{r.named("y", "", "a:1", "b:1"), r.named("x", "", "b:1")},
			[]string{
				`set x for "": b@B`, `set y for "": a@A b@B`,
				"image a@A: tags [a:1], from [PinnedImageSet/y]",
				"image b@B: tags [b:1], from [PinnedImageSet/x PinnedImageSet/y]",
			},
		},
		"a set for each pool, beside the set of a file": {
			[]pinset.Set{file}, []source.NamedImages{r.named("x", "worker infra", "a:1")},
			[]string{
				`set file for "worker": a@A b@B`, `set x-infra for "infra": a@A`, `set x-worker for "worker": a@A`,
				"image a@A: tags [a:1], from [PinnedImageSet/file PinnedImageSet/x-infra PinnedImageSet/x-worker]",
				"image b@B: tags [], from [PinnedImageSet/file]",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r.check(t, source.Content{Sets: c.sets, Named: c.named}, pinset.Lock{}, c.want)
		})
	}
}

// The cluster's API refuses larger sets.
func TestLargeSet(t *testing.T) {
	r := newRegistry(t)
	a := r.image("amd64", "a@A")
	images := r.mirror(a)
	local := source.LocalImages{Group: source.Group{Set: "x"}}
	for n := range 501 {
		name := r.name(fmt.Sprintf("many-%d:1", n))
		local.Images = append(local.Images, source.LocalImage{Name: name, Found: images.Image(name.String(), a.Digest)})
	}
	got, err := resolved(t, source.Content{Local: []source.LocalImages{local}}, pinset.Lock{}, progress.Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	var sets []string
	for _, s := range got.Sets {
		sets = append(sets, fmt.Sprintf("%s: %d", s.Name, len(s.Images)))
	}
	if diff := cmp.Diff([]string{"x: 500", "x-2: 1"}, sets); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	if len(got.Images) != 501 {
		t.Errorf("got %d images, want 501", len(got.Images))
	}
}

// Only of generated sets: package lint warns of the sets of files.
func TestWarningsOfSets(t *testing.T) {
	r := newRegistry(t)
	deep := r.image("amd64", "more/namespaces@A", "1")
	r.image("amd64", "b@B", "1")
	for name, c := range map[string]struct {
		material source.Content
		want     int
	}{
		"generated": {source.Content{Named: []source.NamedImages{r.named("x", "", "more/namespaces:1")}}, 1},
		"of a file": {
			source.Content{
				Sets:  []pinset.Set{{Name: "x", Images: []pinset.Image{deep}}},
				Named: []source.NamedImages{r.named("y", "", "b:1")},
			}, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolved(t, c.material, pinset.Lock{}, progress.Hooks{})
			if err != nil || len(got.Warnings) != c.want {
				t.Errorf("got the warnings %q and %v, want %d", got.Warnings, err, c.want)
			}
		})
	}
}

// A tag in the lock keeps its digest, and no registry is asked for it.
func TestLockedTags(t *testing.T) {
	r := newRegistry(t)
	before := r.image("amd64", "a@before")
	r.image("amd64", "a@now", "1")
	material := source.Content{Named: []source.NamedImages{r.named("x", "", "a:1")}}
	for name, c := range map[string]struct {
		lock  pinset.Lock
		want  string
		asked bool
	}{
		"no lock":               {pinset.Lock{}, "a@now", true},
		"lock":                  {locked(before, "1"), "a@before", false},
		"lock with another tag": {locked(before, "10"), "a@now", true},
	} {
		t.Run(name, func(t *testing.T) {
			r.Take()
			r.check(t, material, c.lock, []string{
				`set x for "": ` + c.want, "image " + c.want + ": tags [a:1], from [PinnedImageSet/x]",
			})
			asked := slices.ContainsFunc(r.Take(), func(q fixtures.Request) bool {
				return strings.HasSuffix(q.Path, "/manifests/1")
			})
			if asked != c.asked {
				t.Errorf("got %t for a request for the tag, want %t", asked, c.asked)
			}
		})
	}
}

// Names that may be images are left out with a warning, unless something else names them.
func TestPossibleImages(t *testing.T) {
	r := newRegistry(t)
	a, b := r.image("amd64", "a@A", "1"), r.image("amd64", "b@B", "1")
	for name, c := range map[string]struct {
		name   string
		warned bool
	}{
		"named by the same tag":                 {"a:1", false},
		"named by another tag":                  {"a:2", true},
		"tag, the image is named by digest":     {"b:1", true},
		"digest, the image is named by tag":     {"a@" + a.Digest.String(), false},
		"digest in a set of a file":             {"b@" + b.Digest.String(), false},
		"digest in a set, beside another tag":   {"b:9@" + b.Digest.String(), false},
		"digest of an image that nothing names": {"c@" + b.Digest.String(), true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolved(t, source.Content{
				Sets: []pinset.Set{{Name: "file", Images: []pinset.Image{b}}}, Named: []source.NamedImages{r.named("x", "", "a:1")},
				Possible: []source.Possible{{Object: "Thing/x", Path: "spec.a", Reference: r.name(c.name)}},
			}, pinset.Lock{}, progress.Hooks{})
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			if c.warned {
				want = []string{"named but not taken: 1 image:\n  Thing/x  spec.a  " + r.name(c.name).String() +
					"\nadd those that nodes pull with --image, or all of them with --possible-images take"}
			}
			if diff := cmp.Diff(want, got.Warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			// A bug was to refuse also what another source names, although the hint says to add it.
			_, err = resolved(t, source.Content{
				Sets: []pinset.Set{{Name: "file", Images: []pinset.Image{b}}}, Named: []source.NamedImages{r.named("x", "", "a:1")},
				Possible: []source.Possible{{Object: "Thing/x", Path: "spec.a", Reference: r.name(c.name), Refused: true}},
			}, pinset.Lock{}, progress.Hooks{})
			if errors.Is(err, source.ErrPossible) != c.warned {
				t.Errorf("refused: got %v, want %v: %t", err, source.ErrPossible, c.warned)
			}
		})
	}
}

func TestRefusedSets(t *testing.T) {
	r := newRegistry(t)
	a, b := r.image("amd64", "a@A", "1"), r.image("amd64", "b@B")
	for name, c := range map[string]struct {
		material source.Content
		want     error
		texts    []string
	}{
		"a name with two digests": {
			source.Content{
				Named: []source.NamedImages{r.named("x", "", "a:1")}, Local: r.local("y", r.mirror(b), "a:1", b.Digest),
			},
			resolve.ErrDuplicateName, []string{r.name("a:1").String(), a.Digest.String(), b.Digest.String()},
		},
		"two sets of one name": {
			source.Content{
				Sets:  []pinset.Set{{Name: "x", Images: []pinset.Image{b}, Origin: "sets.yaml:1"}},
				Named: []source.NamedImages{r.named("x", "", "a:1")},
			},
			pinset.ErrDuplicateSet, []string{`"x"`, "sets.yaml:1", "list.txt"},
		},
		"a set and a pool with too long a name together": {
			source.Content{Named: []source.NamedImages{r.named(strings.Repeat("s", 200), strings.Repeat("p", 60), "a:1")}},
			spec.ErrAppliance, []string{"list.txt", "at most 253 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, c.material, pinset.Lock{}, progress.Hooks{})
			checkError(t, err, c.want, c.texts...)
		})
	}
}

// checkError checks the kind of an error, and that its text has each of the texts once.
func checkError(t *testing.T, err, want error, texts ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got the error %v, want %v", err, want)
		return
	}
	for _, text := range texts {
		if n := strings.Count(err.Error(), text); n != 1 {
			t.Errorf("got %q %d times in the error %v, want it once", text, n, err)
		}
	}
}

// All errors are reported together, and each once.
func TestAllErrorsAreReported(t *testing.T) {
	r := newRegistry(t)
	a, b := r.image("arm64", "a@A"), r.image("arm64", "b@B")
	c, d := r.image("amd64", "c@C"), r.image("amd64", "d@D")
	const platform, missing = ": image is not for the appliance's platform", ": some of its blobs are missing"
	for name, test := range map[string]struct {
		material source.Content
		want     error
		texts    []string
	}{
		"no such tags": {
			source.Content{Named: []source.NamedImages{r.named("x", "", "a:8", "b:9")}},
			storage.ErrNotFound, []string{"resolve " + r.name("a:8").String(), "resolve " + r.name("b:9").String()},
		},
		"local images without their layers, and no such tag": {
			source.Content{
				Local: append(r.local("x", r.mirrorWithoutLayers(c), "c:1", c.Digest),
					r.local("x", r.mirrorWithoutLayers(d), "d:1", d.Digest)...),
				Named: []source.NamedImages{r.named("x", "", "a:8")},
			},
			storage.ErrIncomplete, []string{c.String() + missing, d.String() + missing, "resolve " + r.name("a:8").String()},
		},
		"a local image without its layers, and no such release": {
			source.Content{
				Local:    r.local("x", r.mirrorWithoutLayers(c), "c:1", c.Digest),
				Releases: []source.RequestedRelease{{Release: source.Release{Image: r.name("release:1").String()}}},
			},
			storage.ErrIncomplete, []string{c.String() + missing, "resolve " + r.name("release:1").String()},
		},
		"a local image and one in a set, for another platform": {
			source.Content{
				Local: r.local("x", r.mirror(a), "a:1", a.Digest),
				Sets:  []pinset.Set{{Name: "file", Images: []pinset.Image{b}}},
			},
			storage.ErrPlatform, []string{a.String() + platform, b.String() + platform},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := resolved(t, test.material, pinset.Lock{}, progress.Hooks{})
			checkError(t, err, test.want, test.texts...)
		})
	}
}

// The steps count tags and images.
func TestSteps(t *testing.T) {
	r := newRegistry(t)
	a := r.image("amd64", "a@A", "1", "2")
	release, err := r.PushRelease(t.Context(), "4.99.1", 4)
	if err != nil {
		t.Fatal(err)
	}
	var steps []string
	var done atomic.Int64
	hooks := progress.Hooks{
		Step: func(name string, total int64, unit progress.Unit) {
			steps = append(steps, fmt.Sprint(name, " ", total, " ", unit == progress.Items))
		},
		Done: func(n int) { done.Add(int64(n)) },
	}
	if _, err := resolved(t, source.Content{
		Sets:     []pinset.Set{{Name: "file", Images: []pinset.Image{a}}},
		Named:    []source.NamedImages{r.named("x", "", "a:1", "a:2")},
		Releases: []source.RequestedRelease{{Group: source.Group{Set: "ocp"}, Release: source.Release{Image: release.Tag}}},
	}, pinset.Lock{}, hooks); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"resolve tags 2 true", "read release 0 false", "resolve images 4 true"}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	if got := done.Load(); got != 6 {
		t.Errorf("got %d items done, want 6", got)
	}
}

// Images for another architecture are taken where their name, tag or repository is given, and a name of nothing is an
// error.
func TestAnyArchitecture(t *testing.T) {
	r := newRegistry(t)
	for _, name := range []string{"a@A", "b@B", "c@C"} {
		r.image("s390x", name, "1")
	}
	names := func(all ...string) (refs []pinset.Reference) {
		for _, name := range all {
			refs = append(refs, r.name(name))
		}
		return refs
	}
	bare := r.name("c")
	bare.Tag = ""
	material := source.Content{Named: []source.NamedImages{r.named("x", "", "a:1", "b:1", "c:1")}}
	for name, c := range map[string]struct {
		any  []pinset.Reference
		want error
	}{
		"none":                {nil, storage.ErrPlatform},
		"two of three":        {names("a:1", "b:1"), storage.ErrPlatform},
		"all":                 {append(names("a:1", "b:1"), bare), nil},
		"another tag":         {append(names("a:2", "b:1"), bare), resolve.ErrNoneTaken},
		"one of no input":     {append(names("a:1", "b:1", "d:1"), bare), resolve.ErrNoneTaken},
		"all, and some twice": {append(names("a:1", "b:1", "c:1"), bare), nil},
	} {
		t.Run(name, func(t *testing.T) {
			material.AnyArchitecture = c.any
			got, err := resolved(t, material, pinset.Lock{}, progress.Hooks{})
			if !errors.Is(err, c.want) || c.want == nil && len(got.Warnings) != 3 {
				t.Errorf("got %v and %q, want %v", err, got.Warnings, c.want)
			}
		})
	}
}
