package builder_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// pushRelease pushes a release of n components, and returns the options of an appliance of it.
func pushRelease(t *testing.T, n int) (builder.Options, sample.Release, *sample.Registry, *fixtures.Access) {
	t.Helper()
	registry, access := appliance.Registry(t)
	r, err := registry.PushRelease(t.Context(), "4.99.1", n)
	if err != nil {
		t.Fatal(err)
	}
	access.Take()
	o := options(t, nil)
	o.Appliance.Metadata.Name = "ocp"
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Release{Image: r.Tag}}}
	return o, r, registry, access
}

// CRI-O lists the components of a release offline, pinned and under the names that the cluster uses.
func TestReleaseOnANode(t *testing.T) {
	t.Parallel()
	o, r, registry, _ := pushRelease(t, 8)
	n := appliance.Boot(t, o, "")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	n.Start()
	lock := appliance.Lock(t, o.Out)
	checkImages(t, n, lock)
	want := []string{r.Pin}
	for name, pin := range r.Components {
		if name != "rhel-coreos" { // CRI-O never pulls it
			want = append(want, pin)
		}
	}
	slices.Sort(want)
	var got, sets []string
	for _, img := range lock.Images {
		got = append(got, img.Pin)
		if img.Pin == r.Components["cli"] && !slices.Equal(img.From, []string{"PinnedImageSet/ocp-4.99.1-master",
			"PinnedImageSet/ocp-4.99.1-worker", "release/4.99.1/cli", "release/4.99.1/must-gather"}) {
			t.Errorf("got the origins %q of cli, want two sets and two components", img.From)
		}
	}
	if !slices.Equal(got, slices.Compact(want)) {
		t.Errorf("got the images %q, want %q", got, want)
	}
	for _, s := range lock.Sets {
		sets = append(sets, s.Name+" "+s.Labels[pinset.RoleLabel])
	}
	if want := []string{"ocp-4.99.1-master master", "ocp-4.99.1-worker worker"}; !slices.Equal(sets, want) {
		t.Errorf("got the sets %q, want %q", sets, want)
	}
}

// To lock a release of the usual size, pinbox requests each manifest and each configuration once, and
// no layer except those of the release image.
func TestLockOfALargeRelease(t *testing.T) {
	t.Parallel()
	o, r, _, access := pushRelease(t, 190)
	lock, _, err := builder.Plan(t.Context(), o)
	if err != nil || len(lock.Images) != 189 { // with the release image, without rhel-coreos, and cli once
		t.Fatalf("got %d images, %v; want 189", len(lock.Images), err)
	}
	asked := map[string]int{}
	requests := access.Take()
	for _, q := range requests {
		if strings.Contains(q.Path, "/manifests/") || strings.Contains(q.Path, "/blobs/") {
			asked[q.Path]++
		}
	}
	for path, n := range asked {
		if n > 1 && !strings.Contains(path, "ocp-release") {
			t.Errorf("got %d requests for %s, want 1", n, path)
		}
	}
	t.Logf("%d requests for %d components", len(requests), len(r.Components))
}

// To lock a release of the usual size must take less than 10 s, without two requests for one blob or
// manifest.
func BenchmarkLockOfALargeRelease(b *testing.B) {
	registry, access := appliance.Registry(b)
	r, err := registry.PushRelease(b.Context(), "4.99.1", 190)
	if err != nil {
		b.Fatal(err)
	}
	o := options(b, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Release{Image: r.Tag}}}
	for b.Loop() {
		access.Take()
		if _, _, err := builder.Plan(b.Context(), o); err != nil {
			b.Fatal(err)
		}
	}
	requests := access.Take()
	asked := map[string]int{}
	for _, request := range requests {
		if asked[request.Path]++; asked[request.Path] > 1 && strings.Contains(request.Path, "sha256:") {
			b.Errorf("got %d requests for %s, want 1", asked[request.Path], request.Path)
		}
	}
	blobs := len(fixtures.Blobs(requests))
	b.ReportMetric(float64(blobs), "blobs")
	b.ReportMetric(float64(len(requests)-blobs), "other-requests")
	if each := b.Elapsed() / time.Duration(b.N); each > 10*time.Second {
		b.Errorf("got %v for each lock, want at most 10 s", each)
	}
}

// signed returns a simple signature of a digest, and its armored public key.
func signed(t *testing.T, digest string) (signature, key []byte) {
	t.Helper()
	return signedAs(t, "quay.io/openshift-release-dev/ocp-release:4.99.1-x86_64", digest)
}

// signedAs does so for the name of an image.
func signedAs(t *testing.T, name, digest string) (signature, key []byte) {
	t.Helper()
	entity, err := openpgp.NewEntity("release", "", "release@example.com", nil)
	if err != nil {
		t.Fatal(err)
	}
	var s, k bytes.Buffer
	w, err := openpgp.Sign(&s, entity, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(w,
		`{"critical":{"type":"atomic container signature","image":{"docker-manifest-digest":%q},"identity":{"docker-reference":%q}},"optional":{}}`, digest, name)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := armor.Encode(&k, openpgp.PublicKeyType, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(entity.Serialize(a), a.Close()); err != nil {
		t.Fatal(err)
	}
	return s.Bytes(), k.Bytes()
}

func TestReleaseSignature(t *testing.T) {
	t.Parallel()
	o, r, _, _ := pushRelease(t, 4)
	_, digest, _ := strings.Cut(r.Pin, "@")
	signature, key := signed(t, digest)
	otherSignature, otherKey := signed(t, "sha256:"+strings.Repeat("0", 64))
	dir := t.TempDir()
	file := func(content []byte) string {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Write(content); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	for name, c := range map[string]struct {
		files, keys [][]byte
		want        error
	}{
		"with the key":          {[][]byte{signature}, [][]byte{key}, nil},
		"with one of the keys":  {[][]byte{signature}, [][]byte{otherKey, key}, nil},
		"one of the signatures": {[][]byte{otherSignature, signature}, [][]byte{key}, nil},
		"with another key":      {[][]byte{signature}, [][]byte{otherKey}, storage.ErrSignature},
		"of another release":    {[][]byte{otherSignature}, [][]byte{otherKey}, storage.ErrSignature},
		"not a signature":       {[][]byte{[]byte("nothing")}, [][]byte{key}, storage.ErrSignature},
		"a damaged signature":   {[][]byte{signature[:len(signature)-10]}, [][]byte{key}, storage.ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			s := source.Signatures{}
			for _, content := range c.files {
				s.Files = append(s.Files, file(content))
			}
			for _, content := range c.keys {
				s.Keys = append(s.Keys, file(content))
			}
			o.Appliance.Spec.Sources = []source.Entry{{Source: &source.Release{Image: r.Tag, Signatures: s}}}
			if _, _, err := builder.Plan(t.Context(), o); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}
