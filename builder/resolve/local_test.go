package resolve_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/resolve"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// mirror copies images into a folder of oc-mirror.
func (r *registry) mirror(images ...pinset.Image) *storage.Distribution {
	r.t.Helper()
	return r.distribution(r.mirrorFolder(images...))
}

// mirrorWithoutLayers copies manifests and configurations alone.
func (r *registry) mirrorWithoutLayers(images ...pinset.Image) *storage.Distribution {
	r.t.Helper()
	m := r.mirrorFolder(images...)
	for _, img := range images {
		if err := os.Remove(filepath.Join(m.Dir, sample.Blob(r.layers[img]))); err != nil {
			r.t.Fatal(err)
		}
	}
	return r.distribution(m)
}

func (r *registry) mirrorFolder(images ...pinset.Image) sample.Mirror {
	r.t.Helper()
	m := sample.Mirror{Dir: r.t.TempDir()}
	for _, img := range images {
		if err := m.Add(r.t.Context(), img.String(), "test:"+img.Digest.Encoded()); err != nil {
			r.t.Fatal(err)
		}
	}
	return m
}

func (r *registry) distribution(m sample.Mirror) *storage.Distribution {
	r.t.Helper()
	var tree storage.Tree
	if err := tree.AddFolder(r.t.Context(), m.Dir, ""); err != nil {
		r.t.Fatal(err)
	}
	d, err := storage.ReadDistribution(&tree, m.Dir)
	if err != nil {
		r.t.Fatal(err)
	}
	return d
}

// local returns an image of a mirror by a name after the host and "test/".
func (r *registry) local(set string, from *storage.Distribution, name string, d digest.Digest) []source.LocalImages {
	r.t.Helper()
	ref := r.name(name)
	return []source.LocalImages{{
		Group: source.Group{Set: set}, Origin: "mirror.tar",
		Images: []source.LocalImage{{Name: ref, Found: from.Image(ref.String(), d)}},
	}}
}

// Local images need no registry.
func TestLocalImages(t *testing.T) {
	r := newRegistry(t)
	a, b := r.image("amd64", "a@A"), r.image("amd64", "b@B")
	images := r.mirror(a, b)
	material := source.Content{Local: append(r.local("x", images, "a:1", a.Digest), append(
		r.local("x", images, "a:2", a.Digest), r.local("y", images, "b:1", b.Digest)...)...)}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.check(t, material, pinset.Lock{}, []string{
		`set x for "": a@A`, `set y for "": b@B`,
		"image a@A: tags [a:1 a:2], from [PinnedImageSet/x]", "image b@B: tags [b:1], from [PinnedImageSet/y]",
	})
}

// A tag of a local image keeps the digest in the lock, whichever input has that image.
func TestLockedTagsOfLocalImages(t *testing.T) {
	r := newRegistry(t)
	before, now, b := r.image("amd64", "a@before"), r.image("amd64", "a@now"), r.image("amd64", "b@B")
	lock := locked(before, "1")
	set := func(now string) []string {
		return []string{`set x for "": ` + now, "image " + now + ": tags [a:1], from [PinnedImageSet/x]"}
	}
	beside := func(now string) []string {
		return []string{
			`set x for "": ` + now, `set y for "": b@B`,
			"image " + now + ": tags [a:1], from [PinnedImageSet/x]", "image b@B: tags [b:1], from [PinnedImageSet/y]",
		}
	}
	tag := func(from *storage.Distribution) []source.LocalImages { return r.local("x", from, "a:1", now.Digest) }
	for name, c := range map[string]struct {
		local []source.LocalImages
		lock  pinset.Lock
		want  []string
	}{
		"no lock":                  {tag(r.mirror(now)), pinset.Lock{}, set("a@now")},
		"the lock has another tag": {tag(r.mirror(now, before)), locked(before, "10"), set("a@now")},
		"the same input has it":    {tag(r.mirror(now, before)), lock, set("a@before")},
		"a later input has it by the tag": {
			append(tag(r.mirror(now)), r.local("x", r.mirror(before), "a:1", before.Digest)...), lock, set("a@before"),
		},
		"an earlier input has it by the tag": {
			append(r.local("x", r.mirror(before), "a:1", before.Digest), tag(r.mirror(now))...), lock, set("a@before"),
		},
		"a later input has it by another tag, in other files than its first image": {
			append(tag(r.mirror(now)), source.LocalImages{Group: source.Group{Set: "y"}, Images: []source.LocalImage{
				r.local("", r.mirror(b), "b:1", b.Digest)[0].Images[0],
				r.local("", r.mirror(before), "a:9", before.Digest)[0].Images[0],
			}}), lock, []string{
				`set x for "": a@before`, `set y for "": a@before b@B`,
				"image a@before: tags [a:1 a:9], from [PinnedImageSet/x PinnedImageSet/y]",
				"image b@B: tags [b:1], from [PinnedImageSet/y]",
			},
		},
		"a later input has it without a name": {
			append(tag(r.mirror(now)), r.local("y", r.mirror(b, before), "b:1", b.Digest)...), lock, beside("a@before"),
		},
		"an earlier input has it without a name": {
			append(r.local("y", r.mirror(b, before), "b:1", b.Digest), tag(r.mirror(now))...), lock, beside("a@before"),
		},
	} {
		t.Run(name, func(t *testing.T) { r.check(t, source.Content{Local: c.local}, c.lock, c.want) })
	}
	t.Run("no input has it", func(t *testing.T) {
		_, err := resolved(t, source.Content{Local: tag(r.mirror(now, b))}, lock, progress.Hooks{})
		checkError(t, err, resolve.ErrTagChanged, r.name("a:1").String(), before.Digest.String(), now.Digest.String())
	})
}
