package lint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

const (
	index    = "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	instance = "sha256:2222222222222222222222222222222222222222222222222222222222222222"
	single   = "sha256:3333333333333333333333333333333333333333333333333333333333333333"
	unknown  = "sha256:4444444444444444444444444444444444444444444444444444444444444444"
)

// locked is the lock of the tests.
var locked = pinset.Lock{Version: pinset.LockVersion, Images: []pinset.LockedImage{
	{
		Pin: "quay.io/site/app@" + index, Index: index, Manifest: instance, Tags: []string{
			"quay.io/site/app:1", "quay.io/site/app:latest",
		},
	},
	{Pin: "quay.io/site/db@" + single, Manifest: single},
	{
		Pin: "docker.io/library/nginx@" + unknown[:70] + "5", Manifest: digest.Digest(unknown[:70] + "5"),
		Tags: []string{"docker.io/library/nginx:1"},
	},
}}

// check returns the findings of one object.
func check(t *testing.T, lock pinset.Lock, object string) (findings []lint.Finding) {
	t.Helper()
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return lint.Check(objects, lock)
}

// rules joins the rules of findings.
func rules(findings []lint.Finding) string {
	var names []string
	for _, f := range findings {
		names = append(names, f.Rule)
	}
	return strings.Join(names, " ")
}

func TestUses(t *testing.T) {
	for _, c := range []struct{ image, policy, without, with, fix string }{
		{"quay.io/site/app@" + index, "", "", "", ""},
		{"quay.io/site/app@" + index, "IfNotPresent", "", "", ""},
		{"quay.io/site/app@" + index, "Never", "", "", ""},
		{"quay.io/site/app@" + index, "Always", "pull-always", "pull-always", "write imagePullPolicy: IfNotPresent"},
		{"quay.io/site/app@" + index, "always", "pull-unknown", "pull-unknown", "write imagePullPolicy: IfNotPresent"},
		{"quay.io/site/app@" + index, "${POLICY}", "pull-unknown", "pull-unknown", "write imagePullPolicy: IfNotPresent"},
		{"", "Always", "pull-always", "pull-always", "write imagePullPolicy: IfNotPresent"},
		// CRI-O finds the image by each digest of it, and ignores a tag beside it.
		{"quay.io/site/app@" + instance, "", "", "", ""},
		{"quay.io/site/app:1@" + index, "", "", "", ""},
		{"quay.io/site/app:9@" + index, "", "", "", ""},
		{"quay.io/site/app:latest@" + index, "", "latest", "latest", "write imagePullPolicy: IfNotPresent"},
		// Tags.
		{"quay.io/site/app:1", "", "tag", "", "or name the lock that has the tag with --lock"},
		{"quay.io/site/app:2", "", "tag", "not-in-lock", "use what the store has: quay.io/site/app@" + index},
		{"quay.io/site/app:latest", "", "latest tag", "latest", "write imagePullPolicy: IfNotPresent"},
		{"quay.io/site/app:latest", "IfNotPresent", "tag", "", "name it by digest"},
		{"quay.io/site/app", "", "latest tag", "latest", "write imagePullPolicy: IfNotPresent"},
		{"quay.io/site/other:1", "", "tag", "not-in-lock", "add it to the appliance, and rebuild that"},
		// Digests.
		{"quay.io/site/app@" + unknown, "", "", "not-in-lock", "use what the store has: quay.io/site/app@" + index},
		{"quay.io/mirror/app@" + instance, "", "", "not-in-lock", "the store has it as quay.io/site/app@" + index},
		{"quay.io/mirror/db:1@" + single, "", "", "not-in-lock", "the store has it as quay.io/site/db@" + single},
		// Names that leave the registry to the node's configuration.
		{"nginx:1", "", "short-name", "short-name", "write the full name, docker.io/library/nginx:1 if that is it"},
		{"library/nginx:1", "", "short-name", "short-name", "write the full name, docker.io/library/nginx:1 if that is it"},
		{"nginx:2", "", "short-name", "short-name", "write the full name, docker.io/library/nginx@sha256:4"},
		{"busybox", "Never", "short-name", "short-name", "write the full name, and add the image"},
		{"nginx@" + single, "", "short-name", "short-name", "write the full name, docker.io/library/nginx@"},
		{"docker.io/nginx:1", "", "tag", "", "name it by digest"},
		{"localhost/app:1", "", "tag", "not-in-lock", "add it"},
		{"registry:5000/app:1", "", "tag", "not-in-lock", "add it"},
		// No names at all.
		{"${IMAGE}", "", "bad-name", "bad-name", "registry/path@sha256:…"},
		{"docker://quay.io/site/app:1", "", "bad-name", "bad-name", "registry/path@sha256:…"},
	} {
		t.Run(c.image+" "+c.policy, func(t *testing.T) {
			pod := fmt.Sprintf("spec: {containers: [{image: %q, imagePullPolicy: %q}]}", c.image, c.policy)
			without, with := check(t, pinset.Lock{}, pod), check(t, locked, pod)
			if rules(without) != c.without || rules(with) != c.with {
				t.Errorf("got the rules %q without and %q with the lock, want %q and %q",
					rules(without), rules(with), c.without, c.with)
			}
			if last := append(without, with...); c.fix != "" &&
				!slices.ContainsFunc(last, func(f lint.Finding) bool { return strings.Contains(f.Fix, c.fix) }) {
				t.Errorf("got %v, want the fix %q", last, c.fix)
			}
		})
	}
}

// A bug was to ignore images in objects of other kinds, so that lint had no findings.
func TestOtherKinds(t *testing.T) {
	const catalog, csv, task = "apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\nspec: {image: %s}\n",
		"apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nspec: {relatedImages: [{image: %s}]}\n",
		"apiVersion: tekton.dev/v1\nkind: Task\nspec: {steps: [{image: %s}]}\n"
	const volume, byNode = "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\n" +
		"spec: {source: {registry: {url: 'docker://%s'}}}\n", "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\n" +
		"spec: {dataVolumeTemplates: [{spec: {source: {registry: {url: 'docker://%s', pullMethod: node}}}}]}\n"
	const cron = "apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataImportCron\n" +
		"spec: {template: {spec: {source: {registry: {url: 'docker://%s', pullMethod: node}}}}}\n"
	const other = "apiVersion: example.com/v1\nkind: Fleet\nspec: {appImage: %s}\n"
	const possible = "apiVersion: example.com/v1\nkind: Fleet\nspec: {app: %s}\n"
	for _, c := range []struct{ object, image, without, with, fix string }{
		{catalog, "quay.io/site/app@" + index, "", "", ""},
		{catalog, "quay.io/site/app@" + unknown, "", "not-in-lock", ""},
		{catalog, "quay.io/site/app:1", "pull-always tag", "pull-always", "name it by digest"}, // of OLM
		{csv, "quay.io/site/app@" + unknown, "", "not-in-lock", ""},
		{csv, "quay.io/site/app:latest", "tag", "", ""}, // there is no policy to write
		{task, "quay.io/site/app:latest", "latest tag", "latest", "write imagePullPolicy: IfNotPresent"},
		{task, "$(params.image)", "expression", "expression", "name the image itself"},
		{volume, "quay.io/site/app@" + index, "pull-always", "pull-always", "write pullMethod: node"},
		{volume, "quay.io/site/other:1", "pull-always tag", "pull-always not-in-lock", ""},
		{byNode, "quay.io/site/app@" + index, "", "", ""},
		{byNode, "quay.io/site/app:latest", "tag", "", ""}, // CDI writes the policy
		{byNode, "quay.io/site/app@" + unknown, "", "not-in-lock", ""},
		{cron, "quay.io/site/app@" + index, "pull-always", "pull-always", "write a DataVolume with pullMethod: node"},
		{other, "quay.io/site/app@" + index, "", "", ""},
		{other, "quay.io/site/app:1", "tag", "", ""},
		{other, "quay.io/site/other:1", "tag", "not-in-lock", "add it to the appliance"},
		{possible, "quay.io/site/app@" + index, "possible-image", "", "--lock"},
		{possible, "quay.io/site/app:1", "possible-image", "", ""},
		{possible, "quay.io/site/other:1", "possible-image", "possible-image", "--image"},
		{other, "app", "", "", ""}, // it may be anything
	} {
		object := fmt.Sprintf(c.object, c.image)
		without, with := check(t, pinset.Lock{}, object), check(t, locked, object)
		if rules(without) != c.without || rules(with) != c.with {
			t.Errorf("%s: got the rules %q without and %q with the lock, want %q and %q",
				object, rules(without), rules(with), c.without, c.with)
		}
		if last := append(without, with...); c.fix != "" &&
			!slices.ContainsFunc(last, func(f lint.Finding) bool { return strings.Contains(f.Fix, c.fix) }) {
			t.Errorf("%s: got %v, want the fix %q", object, last, c.fix)
		}
		for _, f := range append(without, with...) {
			if f.Rule == "possible-image" && !strings.Contains(f.Message, "--possible-images of `pinbox build`") {
				t.Errorf("%s: got %q, and `pinbox lint` has no such flag", object, f.Message)
			}
		}
	}
}

func TestSets(t *testing.T) {
	var many []string
	for i := range 501 {
		many = append(many, fmt.Sprintf("quay.io/site/image%d@%s", i, index))
	}
	for name, c := range map[string]struct {
		set           string
		images        []string
		without, with string
		fix           string
	}{
		"good": {"worker", []string{"quay.io/site/app@" + index, "quay.io/site/db@" + single}, "", "", ""},
		"not in the lock": {
			"worker", []string{"quay.io/site/app@" + unknown}, "", "not-in-lock",
			"use what the store has: quay.io/site/app@" + index,
		},
		"another name": {
			"worker", []string{"quay.io/mirror/db@" + single}, "", "not-in-lock",
			"the store has it as quay.io/site/db@" + single,
		},
		"platform's digest": {
			"worker", []string{"quay.io/site/app@" + instance}, "", "not-in-lock",
			"the store has it as quay.io/site/app@" + index,
		},
		"tag": {"worker", []string{"quay.io/site/app:1"}, "tag", "tag", "write quay.io/site/app@" + index},
		"tag and digest": {
			"worker", []string{"quay.io/site/app:1@" + index}, "tag-and-digest", "tag-and-digest", "write quay.io/site/app@" + index,
		},
		"short name": {"worker", []string{"nginx@" + single}, "short-name", "short-name", "write docker.io/library/nginx@" + single},
		"not a name": {"worker", []string{"a b"}, "bad-name", "bad-name", "registry/path@sha256:…"},
		"twice": {
			"worker", []string{"quay.io/site/db@" + single, "quay.io/site/db@" + single}, "set-twice", "set-twice",
			"leave it out here",
		},
		"two namespaces": {
			"worker", []string{"quay.io/a/b/c@" + single}, "set-image", "not-in-lock set-image",
			"copy the image to a name that the API accepts",
		},
		"bad name of a set": {"Worker", []string{"quay.io/site/db@" + single}, "set-name", "set-name", "lower-case letters"},
		"no images":         {"worker", nil, "set-size", "set-size", "at least one"},
		"too many":          {"worker", many, "set-size", "", "split the set"},
	} {
		t.Run(name, func(t *testing.T) {
			object := "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: " + c.set +
				"}\nspec:\n  pinnedImages:\n"
			for _, img := range c.images {
				object += "  - name: " + img + "\n"
			}
			without, with := check(t, pinset.Lock{}, object), check(t, locked, object)
			if rules(without) != c.without || rules(with) != c.with && name != "too many" {
				t.Errorf("got %v without and %v with the lock, want the rules %q and %q", without, with, c.without, c.with)
			}
			if all := append(without, with...); c.fix != "" &&
				!slices.ContainsFunc(all, func(f lint.Finding) bool { return strings.Contains(f.Fix, c.fix) }) {
				t.Errorf("got %v, want the fix %q", all, c.fix)
			}
		})
	}
}

// objects have errors in many lines.
const objects = `kind: Deployment
spec:
  template:
    spec:
      initContainers:
      - name: init
        image: quay.io/site/app:2
      containers:
      - &app
        name: app
        image: quay.io/site/app@` + index + `
        imagePullPolicy:
          Always
      - <<: *app
        imagePullPolicy: "no"
      volumes:
      - name: model
        image:
          pullPolicy: Always
          reference: quay.io/site/app:1
---
kind: List
items:
- apiVersion: machineconfiguration.openshift.io/v1alpha1
  kind: PinnedImageSet
  metadata:
    labels: {a: b}
    name: Worker
  spec:
    pinnedImages:
    - name: quay.io/site/db@` + single + `
    - name: quay.io/site/db@` + single + `
    - name: quay.io/site/db:1
    - {}
- apiVersion: machineconfiguration.openshift.io/v1
  kind: PinnedImageSet
  metadata: {name: empty}
  spec:

    pinnedImages: []
`

// Each finding has the line of the wrong field.
func TestLines(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"b.yaml": objects,
		"a.json": `{"spec":{"containers":[{"image":"nginx:1"},{"image":"nginx:1"}]}}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	read, err := source.ReadObjects(t.Context(), []string{filepath.Join(dir, "b.yaml"), dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range lint.Check(read, locked) {
		got = append(got, strings.TrimPrefix(f.String(), dir+"/"))
	}
	want := []string{
		"a.json:1: nginx:1 does not name its registry, and CRI-O may ask several: write the full name, " +
			"docker.io/library/nginx:1 if that is it",
		"b.yaml:7: the lock has no quay.io/site/app:2: add it to the appliance, or use what the store has: " +
			"quay.io/site/app@" + index,
		"b.yaml:13: imagePullPolicy Always contacts the registry at every start, even if the node has the image; without " +
			"one: Failed to pull image \"quay.io/site/app@" + index + "\", and Error: ImagePullBackOff: write " +
			"imagePullPolicy: IfNotPresent",
		`b.yaml:15: imagePullPolicy "no" is not a policy of Kubernetes: write imagePullPolicy: IfNotPresent`,
		"b.yaml:19: pullPolicy Always contacts the registry at every start, even if the node has the image; without one: " +
			"Failed to pull image \"quay.io/site/app:1\", and Error: ImagePullBackOff: write pullPolicy: IfNotPresent",
		"b.yaml:20: CRI-O mounts no image volume out of a read-only store: pods with quay.io/site/app:1 fail with " +
			"\"layer not known\": build the appliance with spec.node.imageVolumes: copy and with this manifest as a source, " +
			"and name its lock with --lock",
		`b.yaml:28: the cluster's API refuses metadata.name "Worker" of a set: use only lower-case letters, digits, - and .`,
		"b.yaml:32: the cluster's API refuses image quay.io/site/db@" + single + ": it is listed twice: leave it out here",
		"b.yaml:33: quay.io/site/db:1 is a tag, and a set takes only digests: write quay.io/site/db@sha256:…",
		`b.yaml:34: image "": not a valid image reference (invalid reference format): write it as registry/path@sha256:…`,
		`b.yaml:40: set "empty" has no images: list at least one image under spec.pinnedImages, or leave the set out`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}

// The lock of an appliance that was built with a pod's manifest says that the node may copy its image volume.
func TestImageVolumes(t *testing.T) {
	const pod = "kind: Pod\nspec:\n  volumes: [{image: {reference: quay.io/site/db@" + single + "}}]\n"
	volumes := locked
	volumes.Images = slices.Clone(locked.Images)
	volumes.Images[1].Volume = true
	for _, test := range []struct {
		name string
		lock pinset.Lock
		want string
	}{
		{"no lock", pinset.Lock{}, "image-volume"}, {"lock of a set", locked, "image-volume"}, {"lock of the pod", volumes, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := rules(check(t, test.lock, pod)); got != test.want {
				t.Errorf("got the findings %q, want %q", got, test.want)
			}
		})
	}
}
