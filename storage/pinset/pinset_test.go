package pinset_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

func pin(repository string, n int) string {
	return repository + "@" + digest.FromString(fmt.Sprint(n)).String()
}

func object(version, name, labels string, pins ...string) string {
	s := "apiVersion: machineconfiguration.openshift.io/" + version + "\nkind: PinnedImageSet\nmetadata:\n  name: " +
		name + "\n" + labels + "spec:\n  pinnedImages:\n"
	for _, p := range pins {
		s += "  - name: " + p + "\n"
	}
	return s
}

func decode(t *testing.T, text string) []pinset.Set {
	t.Helper()
	sets, _, err := pinset.DecodeSets(strings.NewReader(text), "f.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func TestParseImage(t *testing.T) {
	const d = "@sha256:4198606580b69c8335ad7ae531c3a74e51aee25db5faaf368234e8c8dae5cbea"
	for name, want := range map[string]error{
		"quay.io/openshift-release-dev/ocp-release" + d:  nil,
		"localhost:5000/a" + d:                           nil,
		"mirror.lab:8443/mirror/ocp/release-images" + d:  nil,
		"[2001:db8::1]:5000/a/b" + d:                     pinset.ErrBadName,
		"quay.io/a/b":                                    pinset.ErrNotPinned,
		"quay.io/a/b:latest":                             pinset.ErrNotPinned,
		"quay.io/a/b:latest" + d:                         pinset.ErrNotPinned,
		"busybox" + d:                                    pinset.ErrShortName,
		"library/busybox" + d:                            pinset.ErrShortName,
		"docker.io/busybox" + d:                          pinset.ErrShortName,
		"index.docker.io/busybox" + d:                    pinset.ErrShortName,
		"quay.io/A/b" + d:                                pinset.ErrBadName,
		"quay.io/a/b@sha256:ABC":                         pinset.ErrBadName,
		"":                                               pinset.ErrBadName,
		"quay.io/a/b@sha512:" + strings.Repeat("a", 128): pinset.ErrNotPinned,
	} {
		t.Run(name, func(t *testing.T) {
			img, err := pinset.ParseImage(name)
			if !errors.Is(err, want) {
				t.Errorf("got %v, want %v", err, want)
			}
			if err == nil && img.String() != name {
				t.Errorf("got the name %q, want %q", img, name)
			}
		})
	}
}

// An API server leaves out the kind of the items of a list: `kubectl get --raw`.
func TestRawListOfSets(t *testing.T) {
	const list = `{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"PinnedImageSetList","items":[{"metadata":` +
		`{"name":"worker"},"spec":{"pinnedImages":[{"name":"quay.io/a/b@sha256:` +
		`513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e"}]}}]}`
	sets, others, err := pinset.DecodeSets(strings.NewReader(list), "list.json")
	if err != nil || others > 0 || len(sets) != 1 || sets[0].Name != "worker" || len(sets[0].Images) != 1 {
		t.Errorf("got %+v, %d others, %v, want the set worker", sets, others, err)
	}
}

func TestDecodeSets(t *testing.T) {
	a, b := pin("quay.io/x/a", 1), pin("quay.io/x/b", 2)
	role := "  labels:\n    machineconfiguration.openshift.io/role: worker\n"
	for name, test := range map[string]struct {
		text string
		want []string
	}{
		"one":      {object("v1", "s", role, a, b), []string{"s worker 2"}},
		"v1alpha1": {object("v1alpha1", "s", "", a), []string{"s  1"}},
		"several documents": {
			object("v1", "s", "", a) + "---\n" + object("v1", "t", role, b), []string{"s  1", "t worker 1"},
		},
		"empty documents": {"---\n---\n" + object("v1", "s", "", a) + "---\n# end\n", []string{"s  1"}},
		"list": {
			"apiVersion: v1\nkind: List\nitems:\n- " + strings.ReplaceAll(strings.TrimSpace(object("v1", "s", "", a)), "\n",
				"\n  ") + "\n", []string{"s  1"},
		},
		"JSON": {
			`{"apiVersion":"machineconfiguration.openshift.io/v1","kind":"PinnedImageSet","metadata":{"name":"s"},"spec":{"pinnedImages":[{"name":"` + a + `"}]}}`, []string{"s  1"},
		},
		"as a cluster prints it": {
			object("v1alpha1", "s", "  uid: x\n  generation: 3\n  managedFields: [{manager: oc}]\n",
				a) + "status:\n  conditions: []\n", []string{"s  1"},
		},
		"other kinds": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {}\n---\n" + object("v1", "s", "", a), []string{"s  1"},
		},
		"twice the same image": {object("v1", "s", "", a, a), []string{"s  1"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, s := range decode(t, test.text) {
				got = append(got, fmt.Sprintf("%s %s %d", s.Name, s.Labels[pinset.RoleLabel], len(s.Images)))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A union is sorted and has each image once.
// The annotation of a set names a store; it is not part of what identifies the content.
func TestStoreOfASet(t *testing.T) {
	decode := func(annotations string) (pinset.Set, error) {
		sets, _, err := pinset.DecodeSets(strings.NewReader("apiVersion: machineconfiguration.openshift.io/v1\n"+
			"kind: PinnedImageSet\nmetadata: {name: worker, annotations: {"+annotations+"}}\nspec:\n  pinnedImages:\n"+
			"  - name: quay.io/a@sha256:"+strings.Repeat("0", 64)+"\n"), "sets.yaml")
		if len(sets) == 0 {
			return pinset.Set{}, err
		}
		return sets[0], err
	}
	without, err := decode("other: x")
	if err != nil || without.Store != "" {
		t.Errorf("got %q, %v, want no store", without.Store, err)
	}
	const name = "https://files.example.com/42/delta.thin"
	with, err := decode("pinbox.dev/store: '" + name + "'")
	if err != nil || with.Store != name || with.Revision() != without.Revision() {
		t.Errorf("got %q, revision %s, %v, want %q, revision %s", with.Store, with.Revision(), err, name, without.Revision())
	}
	for _, bad := range []string{`"\e[2J"`, strings.Repeat("x", 5000)} {
		if _, err := decode("pinbox.dev/store: " + bad); !errors.Is(err, pinset.ErrNotSet) {
			t.Errorf("%.10s: got %v, want %v", bad, err, pinset.ErrNotSet)
		}
	}
}

func TestUnion(t *testing.T) {
	a, b, c := pin("quay.io/x/a", 1), pin("quay.io/x/b", 2), pin("quay.io/x/c", 3)
	sets := decode(t, object("v1", "s", "", c, a)+"---\n"+object("v1", "t", "", b, a))
	var got []string
	for _, img := range pinset.Union(sets...) {
		got = append(got, img.String())
	}
	if diff := cmp.Diff([]string{a, b, c}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if got := pinset.Union(); len(got) != 0 {
		t.Errorf("union of no sets: got %v, want no images", got)
	}
}

// Warnings are for sets that the cluster's API refuses, although a node can pin them.
func TestLint(t *testing.T) {
	var many []string
	for i := range 501 {
		many = append(many, pin("quay.io/x/a", i))
	}
	for name, test := range map[string]struct {
		pins []string
		want string
	}{
		"fine":         {[]string{pin("quay.io/ns/img", 1), pin("192.168.1.10:5000/ns/img", 1), pin("quay.io/img", 1)}, ""},
		"deep path":    {[]string{pin("mirror.lab:8443/mirror/ocp/release", 1)}, "one namespace at most"},
		"localhost":    {[]string{pin("localhost:5000/a/b", 1)}, "host.domain"},
		"dotted space": {[]string{pin("quay.io/a.b/c", 1)}, "one namespace at most"},
		"listed twice": {[]string{pin("quay.io/a/b", 1), pin("quay.io/a/b", 1)}, "listed twice"},
		"500 images":   {many[:500], ""},
		"501 images":   {many, "more than 500 images"},
	} {
		t.Run(name, func(t *testing.T) {
			warnings := strings.Join(decode(t, object("v1", "s", "", test.pins...))[0].Warnings(), "\n")
			if test.want == "" && warnings != "" || !strings.Contains(warnings, test.want) {
				t.Errorf("got %q, want %q", warnings, test.want)
			}
			if warnings != "" && !strings.Contains(warnings, `f.yaml:1: set "s"`) {
				t.Errorf("got %q, want the file, the line and the set", warnings)
			}
		})
	}
}

// OpenShift's own types can decode a manifest strictly.
func TestManifestGolden(t *testing.T) {
	sets := decode(t, object("v1alpha1", "worker-pinned-images",
		"  labels:\n    machineconfiguration.openshift.io/role: worker\n    tier: \"1\"\n    on: \"true\"\n",
		pin("quay.io/x/b", 1), pin("quay.io/x/a", 2)))
	got := sets[0].Render()
	fixtures.Golden(t, "manifest.yaml", got)
	var decoded mcfgv1.PinnedImageSet
	if err := yaml.UnmarshalStrict(got, &decoded); err != nil {
		t.Fatal(err)
	}
	if decoded.Name != "worker-pinned-images" || decoded.Kind != "PinnedImageSet" ||
		decoded.APIVersion != mcfgv1.GroupVersion.String() ||
		decoded.Labels["tier"] != "1" || decoded.Labels["on"] != "true" || len(decoded.Spec.PinnedImages) != 2 {
		t.Errorf("OpenShift's type: got %+v, want two images and the labels", decoded)
	}
	if rendered := decode(t, string(got)); !slices.Equal(rendered[0].Images, sets[0].Images) {
		t.Errorf("DecodeSets: got %v, want the images %v", rendered, sets[0].Images)
	}
}

// The manifest of a set without labels has no field for them.
func TestManifestWithoutLabels(t *testing.T) {
	got := string(decode(t, object("v1", "s", "", pin("quay.io/x/a", 1)))[0].Render())
	if want := object("v1", "s", "", pin("quay.io/x/a", 1)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// The revision is the generation that a cluster has set, or else a digest of the set's content,
// which does not depend on its form.
func TestRevision(t *testing.T) {
	from := func(text string) string { return decode(t, text)[0].Revision() }
	plain := from(object("v1", "s", "", pin("quay.io/x/a", 1)))
	if !strings.HasPrefix(plain, "sha256:") ||
		plain != from("# a comment\n"+object("v1alpha1", "s", "", pin("quay.io/x/a", 1))) {
		t.Errorf("got %s, want a digest that is the same in another form", plain)
	}
	if other := from(object("v1", "s", "", pin("quay.io/x/a", 2))); other == plain {
		t.Errorf("another set: got the same revision, %s", other)
	}
	if got := from(strings.Replace(object("v1", "s", "", pin("quay.io/x/a", 1)), "metadata:\n",
		"metadata:\n  generation: 7\n", 1)); got != "7" {
		t.Errorf("got %s, want the generation, 7", got)
	}
}

func TestLockGolden(t *testing.T) {
	sets := decode(t, object("v1", "t", "", pin("quay.io/x/b", 2))+"---\n"+object("v1", "s", "", pin("quay.io/x/b", 2),
		pin("quay.io/x/a", 1)))
	layer := &pinset.LockedLayer{
		Digest: digest.FromString("blob"), Size: 10, DiffID: digest.FromString("diff"), UnpackedSize: 30, Inodes: 2,
		RootAttributes: "0755:0:0",
		MediaType:      "application/vnd.oci.image.layer.v1.tar+gzip",
	}
	lock := pinset.Lock{
		Version: pinset.LockVersion, ReleaseID: pinset.ReleaseID{Name: "factory-12", Number: 7},
		Platform: "linux/amd64", Sets: []pinset.LockedSet{sets[0].Lock(), sets[1].Lock()},
	}
	for i, name := range []string{"quay.io/x/b", "quay.io/x/a"} {
		lock.Images = append(lock.Images, pinset.LockedImage{
			Pin: pin(name, 2-i), Manifest: digest.FromString("manifest"), Config: digest.FromString("config"),
			From: []string{"PinnedImageSet/s"}, Layers: []*pinset.LockedLayer{layer},
		})
	}
	var b bytes.Buffer
	if err := lock.Encode(&b); err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "pinbox.lock.json", b.Bytes())
	decoded, err := pinset.DecodeLock(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := decoded.Totals(), (pinset.Totals{Images: 2, Layers: 1, Bytes: 10, TotalLayers: 2, TotalBytes: 20,
		UnpackedSize: 30}); got != want {
		t.Errorf("got the totals %+v, want %+v", got, want)
	}
	for name, text := range map[string]string{
		"unknown field": strings.Replace(b.String(), `"platform"`, `"plattform"`, 1),
		"other version": strings.Replace(b.String(), `"version": 1`, `"version": 2`, 1),
		"truncated":     b.String()[:b.Len()/2],
	} {
		if _, err := pinset.DecodeLock(strings.NewReader(text)); !errors.Is(err, pinset.ErrBadLock) && !errors.Is(err, pinset.ErrNewer) {
			t.Errorf("%s: got %v, want %v", name, err, pinset.ErrBadLock)
		}
	}
}

// Split divides generated sets into sets of at most 500 images, the limit of OpenShift's API.
func TestSplit(t *testing.T) {
	images := make([]pinset.Image, 1001)
	for i := range images {
		images[i] = pinset.Image{Repository: fmt.Sprintf("quay.io/a/b%04d", i), Digest: digest.FromString("x")}
	}
	for n, want := range map[int]string{1: "s:1", 500: "s:500", 501: "s:500 s-2:1", 1001: "s:500 s-2:500 s-3:1"} {
		var got []string
		for _, part := range (pinset.Set{Name: "s", Generated: true, Images: images[:n]}).Split() {
			got = append(got, fmt.Sprintf("%s:%d", part.Name, len(part.Images)))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%d images: got %q, want %q", n, got, want)
		}
	}
	for _, part := range (pinset.Set{Name: strings.Repeat("s", 253), Generated: true, Images: images}).Split() {
		if !pinset.ValidName(part.Name) {
			t.Errorf("got a part with a name of %d bytes, want a valid name", len(part.Name))
		}
	}
	if parts := (pinset.Set{Name: "s", Images: images}).Split(); len(parts) != 1 {
		t.Errorf("a set of the user: got %d parts, want 1", len(parts))
	}
}

// Names in Kubernetes have at most 253 bytes: validation.DNS1123SubdomainMaxLength of apimachinery.
func TestLongestNameOfASet(t *testing.T) {
	for size, want := range map[int]bool{0: false, 1: true, 253: true, 254: false} {
		if got := pinset.ValidName(strings.Repeat("n", size)); got != want {
			t.Errorf("a name of %d bytes: got %v, want %v", size, got, want)
		}
	}
}

// With a suffix, the longest names in Kubernetes are too long for a file. Their file names are
// shortened and differ from those of other sets.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("n", 249)
	seen := map[string]string{}
	for name, want := range map[string]string{
		"worker": "worker.yaml", long + "a": long + "a.yaml",
		long + "ab": "", long + "ac": "", long + "abcd": "",
	} {
		got := pinset.FileName(name)
		if want != "" && got != want || len(got) > 255 || !strings.HasSuffix(got, ".yaml") || seen[got] != "" {
			t.Errorf("%s: got %s, also of %q, want %q or a shorter name", name, got, seen[got], want)
		}
		if want == "" && pinset.ValidName(strings.TrimSuffix(got, ".yaml")) {
			t.Errorf("%s: got %s, which can be the file name of another set", name, got)
		}
		seen[got] = name
	}
}
