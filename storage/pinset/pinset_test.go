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
		"index.docker.io/library/busybox" + d:            pinset.ErrShortName,
		"quay.io/A/b" + d:                                pinset.ErrBadName,
		"quay.io/a/b@sha256:ABC":                         pinset.ErrBadName,
		"":                                               pinset.ErrBadName,
		"quay.io/a/b@sha512:" + strings.Repeat("a", 128): pinset.ErrNotPinned,
	} {
		img, err := pinset.ParseImage(name)
		if !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
		if err == nil && img.String() != name {
			t.Errorf("%q became %q", name, img)
		}
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
		"other kinds beside": {
			"apiVersion: v1\nkind: ConfigMap\ndata: {}\n---\n" + object("v1", "s", "", a), []string{"s  1"},
		},
		"twice the same image": {object("v1", "s", "", a, a), []string{"s  1"}},
	} {
		var got []string
		for _, s := range decode(t, test.text) {
			got = append(got, fmt.Sprintf("%s %s %d", s.Name, s.Labels[pinset.RoleLabel], len(s.Images)))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestUnionIsSortedAndHasNoImageTwice(t *testing.T) {
	a, b, c := pin("quay.io/x/a", 1), pin("quay.io/x/b", 2), pin("quay.io/x/c", 3)
	sets := decode(t, object("v1", "s", "", c, a)+"---\n"+object("v1", "t", "", b, a))
	var got []string
	for _, img := range pinset.Union(sets...) {
		got = append(got, img.String())
	}
	if diff := cmp.Diff([]string{a, b, c}, got); diff != "" {
		t.Error(diff)
	}
	if got := pinset.Union(); len(got) != 0 {
		t.Errorf("union of nothing: %v", got)
	}
}

// What the cluster's API would refuse, and a node can pin.
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
		warnings := strings.Join(decode(t, object("v1", "s", "", test.pins...))[0].Warnings(), "\n")
		if test.want == "" && warnings != "" || !strings.Contains(warnings, test.want) {
			t.Errorf("%s: %q, want %q", name, warnings, test.want)
		}
		if warnings != "" && !strings.Contains(warnings, `f.yaml:1: set "s"`) {
			t.Errorf("%s: does not say where: %q", name, warnings)
		}
	}
}

// The manifests are what the cluster's own types read, strictly.
func TestManifestGolden(t *testing.T) {
	sets := decode(t, object("v1alpha1", "worker-pinned-images",
		"  labels:\n    machineconfiguration.openshift.io/role: worker\n    tier: \"1\"\n    on: \"true\"\n",
		pin("quay.io/x/b", 1), pin("quay.io/x/a", 2)))
	got := sets[0].Render()
	fixtures.Golden(t, "manifest.yaml", got)
	var judged mcfgv1.PinnedImageSet
	if err := yaml.UnmarshalStrict(got, &judged); err != nil {
		t.Fatal(err)
	}
	if judged.Name != "worker-pinned-images" || judged.Kind != "PinnedImageSet" ||
		judged.APIVersion != mcfgv1.GroupVersion.String() ||
		judged.Labels["tier"] != "1" || judged.Labels["on"] != "true" || len(judged.Spec.PinnedImages) != 2 {
		t.Errorf("the cluster reads %+v", judged)
	}
	if again := decode(t, string(got)); !slices.Equal(again[0].Images, sets[0].Images) {
		t.Errorf("we read %v", again)
	}
}

// A set without labels says nothing of them.
func TestManifestWithoutLabels(t *testing.T) {
	got := string(decode(t, object("v1", "s", "", pin("quay.io/x/a", 1)))[0].Render())
	if want := object("v1", "s", "", pin("quay.io/x/a", 1)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// A set has the revision that the cluster gave it, or one that follows what it
// says, not how.
func TestRevision(t *testing.T) {
	from := func(text string) string { return decode(t, text)[0].Revision() }
	plain := from(object("v1", "s", "", pin("quay.io/x/a", 1)))
	if !strings.HasPrefix(plain, "sha256:") ||
		plain != from("# a comment\n"+object("v1alpha1", "s", "", pin("quay.io/x/a", 1))) {
		t.Errorf("%s", plain)
	}
	if other := from(object("v1", "s", "", pin("quay.io/x/a", 2))); other == plain {
		t.Errorf("another set has the same revision, %s", other)
	}
	if got := from(strings.Replace(object("v1", "s", "", pin("quay.io/x/a", 1)), "metadata:\n",
		"metadata:\n  generation: 7\n", 1)); got != "7" {
		t.Errorf("%s", got)
	}
}

func TestLockGolden(t *testing.T) {
	sets := decode(t, object("v1", "t", "", pin("quay.io/x/b", 2))+"---\n"+object("v1", "s", "", pin("quay.io/x/b", 2),
		pin("quay.io/x/a", 1)))
	layer := pinset.LockedLayer{
		Digest: digest.FromString("blob"), Size: 10, DiffID: digest.FromString("diff"), UnpackedSize: 30, Inodes: 2,
		RootAttributes: "0755:0:0",
		MediaType:      "application/vnd.oci.image.layer.v1.tar+gzip",
	}
	lock := pinset.Lock{
		Version: pinset.LockVersion, Platform: "linux/amd64", Sets: []pinset.LockedSet{sets[0].Lock(), sets[1].Lock()},
	}
	for i, name := range []string{"quay.io/x/b", "quay.io/x/a"} {
		lock.Images = append(lock.Images, pinset.LockedImage{
			Pin: pin(name, 2-i), Manifest: digest.FromString("manifest"), Config: digest.FromString("config"),
			From: []string{"PinnedImageSet/s"}, Layers: []pinset.LockedLayer{layer},
		})
	}
	var b bytes.Buffer
	if err := lock.Encode(&b); err != nil {
		t.Fatal(err)
	}
	fixtures.Golden(t, "pinbox.lock.json", b.Bytes())
	again, err := pinset.DecodeLock(bytes.NewReader(b.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Totals(), (pinset.Totals{Images: 2, Layers: 1, Bytes: 10, TotalLayers: 2, TotalBytes: 20,
		UnpackedSize: 30}); got != want {
		t.Errorf("totals %+v, want %+v", got, want)
	}
	for name, text := range map[string]string{
		"unknown field": strings.Replace(b.String(), `"platform"`, `"plattform"`, 1),
		"other version": strings.Replace(b.String(), `"version": 1`, `"version": 2`, 1),
		"cut off":       b.String()[:b.Len()/2],
	} {
		if _, err := pinset.DecodeLock(strings.NewReader(text)); !errors.Is(err, pinset.ErrBadLock) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The cluster's API takes 500 images a set; what pinbox makes itself keeps to it.
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
			t.Errorf("%d: %q", n, got)
		}
	}
	for _, part := range (pinset.Set{Name: strings.Repeat("s", 253), Generated: true, Images: images}).Split() {
		if !pinset.ValidName(part.Name) {
			t.Errorf("%d bytes in the name of a part", len(part.Name))
		}
	}
	if parts := (pinset.Set{Name: "s", Images: images}).Split(); len(parts) != 1 {
		t.Errorf("a set of the user's became %d", len(parts))
	}
}

// Kubernetes takes names of 253 bytes: apimachinery, validation.DNS1123SubdomainMaxLength.
func TestLongestNameOfASet(t *testing.T) {
	for size, want := range map[int]bool{0: false, 1: true, 253: true, 254: false} {
		if got := pinset.ValidName(strings.Repeat("n", size)); got != want {
			t.Errorf("a name of %d bytes: got %v, want %v", size, got, want)
		}
	}
}

// Names that Kubernetes takes are too long for files, with an ending.
func TestFileNames(t *testing.T) {
	long := strings.Repeat("n", 249)
	seen := map[string]string{}
	for name, want := range map[string]string{
		"worker": "worker.yaml", long + "a": long + "a.yaml",
		long + "ab": "", long + "ac": "", long + "abcd": "",
	} {
		got := pinset.FileName(name)
		if want != "" && got != want || len(got) > 255 || !strings.HasSuffix(got, ".yaml") || seen[got] != "" {
			t.Errorf("%s: %s, as %s", name, got, seen[got])
		}
		if want == "" && pinset.ValidName(strings.TrimSuffix(got, ".yaml")) {
			t.Errorf("%s: %s is what another set may be called", name, got)
		}
		seen[got] = name
	}
}
