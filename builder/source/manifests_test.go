package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/pinset"
)

const rendered = `# Source: chart/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      initContainers:
      - {name: init, image: "quay.io/site/init:1"}
      containers:
      - name: app
        image: quay.io/site/app` + digest + `
      - name: side
        image: quay.io/site/side
      volumes:
      - name: model
        image: {reference: "quay.io/site/model:3"}
      - name: config
        configMap: {name: x}
---
apiVersion: v1
kind: List
items:
- kind: CronJob
  spec: {jobTemplate: {spec: {template: {spec: {containers: [{image: "quay.io/site/job:2"}]}}}}}
- kind: ConfigMap
  data: {image: not an image}
---
apiVersion: example.com/v1
kind: Fleet
spec:
  members:
  - podTemplate: {spec: {ephemeralContainers: [{image: "quay.io/site/debug:1"}], containers: []}}
`

func TestManifests(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{"all.yaml": rendered, "more/pod.json": `{"kind":"Pod","spec":{"containers":[{"image":"quay.io/site/pod:1"}]}}`, "README.md": "containers: [{image: x}]", "NOTES.txt": "nothing"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := source.Manifests(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range names {
		got = append(got, n.String()+" "+strings.TrimPrefix(n.Origin, dir+"/"))
	}
	want := []string{
		"quay.io/site/init:1 all.yaml:8", "quay.io/site/app" + digest + " all.yaml:11", "quay.io/site/side:latest all.yaml:13", "quay.io/site/model:3 all.yaml:16",
		"quay.io/site/job:2 all.yaml:24", "quay.io/site/debug:1 all.yaml:32", "quay.io/site/pod:1 more/pod.json:1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestManifestsThatAreWrong(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    error
		where   string
	}{
		"a template":   {"{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", source.ErrManifest, "x.yaml"},
		"short names":  {"spec:\n  containers:\n  - image: nginx:1\n  - image: busybox\n", pinset.ErrShortName, "x.yaml:4: image \"busybox\""},
		"no container": {"kind: ConfigMap\n", source.ErrNoImages, "x.yaml"},
	} {
		if _, err := source.Manifests(list(t, "x.yaml", c.content)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: %v", name, err)
		}
	}
	owner := "ownerReferences: [{apiVersion: machineconfiguration.openshift.io/v1, kind: PinnedImageSet, name: x}]"
	if objects, err := source.ReadObjects([]string{"-"}, strings.NewReader(owner)); err != nil || len(objects.Sets) > 0 {
		t.Errorf("an owner is a set: %v %+v", err, objects)
	}
}

// A list may merge several mappings, and an alias may stand inside what it stands for:
// the first was overlooked, the second ended in a stack overflow.
func TestAliases(t *testing.T) {
	content := "a: &a {imagePullPolicy: Always}\nb: &b {image: quay.io/a/b:1}\nspec:\n  containers:\n  - <<: [*a, *b]\n"
	objects, err := source.ReadObjects([]string{"-"}, strings.NewReader(content))
	if err != nil || len(objects.Uses) != 1 || objects.Uses[0].Policy.Text != "Always" || objects.Uses[0].Image.Text != "quay.io/a/b:1" {
		t.Errorf("%v, %+v", err, objects.Uses)
	}
	bomb := "a0: &a0 x\n"
	for i := range 20 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for says, content := range map[string]string{"an alias stands for what it is in": "&a\nkind: List\nitems: [*a]\n", "too large": bomb} {
		file := list(t, "x.yaml", content)
		_, _, inMirrors := source.Mirrors([]string{file})
		_, inManifests := source.Manifests(file)
		_, _, inSets := source.PinnedImageSets([]string{file})
		_, _, inList := source.ReadList(file, "linux/amd64")
		for want, err := range map[error]error{source.ErrMirrors: inMirrors, source.ErrManifest: inManifests, pinset.ErrNotSet: inSets, source.ErrList: inList} {
			if !errors.Is(err, want) || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "x.yaml: ") {
				t.Errorf("%v: %v", want, err)
			}
		}
	}
}

// What an alias stands for counts in sets, mirrors and lists too: pinnedImages: *p had
// no images, and spec: *s was missing.
func TestAliasesInOtherInputs(t *testing.T) {
	const set = "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: x}\n"
	for name, content := range map[string]string{
		"pinnedImages": "kind: List\nmetadata: {annotations: {x: &p [{name: 'quay.io/a/b" + digest + "'}]}}\nitems:\n- " + strings.ReplaceAll(set, "\n", "\n  ") + "spec: {pinnedImages: *p}\n",
		"spec":         set + "status: &s\n  pinnedImages:\n  - name: quay.io/a/b" + digest + "\nspec: *s\n",
		"an image":     set + "status: {x: &i {name: 'quay.io/a/b" + digest + "'}}\nspec: {pinnedImages: [{<<: *i}]}\n",
	} {
		file := list(t, "x.yaml", content)
		sets, _, err := source.PinnedImageSets([]string{file})
		if err != nil || len(sets) != 1 || len(sets[0].Images) != 1 {
			t.Errorf("%s: %v, %+v", name, err, sets)
		}
		objects, err := source.ReadObjects([]string{file}, nil)
		if err != nil || len(objects.Sets) != 1 || len(objects.Sets[0].Images) != 1 {
			t.Errorf("%s: %v, %+v", name, err, objects.Sets)
		}
	}
	rules, _, err := source.Mirrors([]string{list(t, "x.yaml", "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\nstatus: &s {imageDigestMirrors: [{source: quay.io/a, mirrors: [mirror.lab/a]}]}\nspec: *s\n")})
	if err != nil || len(rules) != 1 {
		t.Errorf("mirrors: %v, %+v", err, rules)
	}
	names, _, err := source.ReadList(list(t, "x.yaml", "kind: Images\nmetadata: {annotations: {x: &n quay.io/a/b:1}}\nspec: {images: [{name: *n}]}\n"), "linux/amd64")
	if err != nil || len(names) != 1 || names[0].String() != "quay.io/a/b:1" {
		t.Errorf("a list: %v, %+v", err, names)
	}
}

// Objects of JSON may stand one after the other, as jq '.items[]' prints them: they were
// refused as wrong YAML.
func TestConsecutiveJSON(t *testing.T) {
	const set = `{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSet", "metadata": {"name": "NAME"},` + "\n" + ` "spec": {"pinnedImages": [{"name": "quay.io/a/b` + digest + `"}]}}` + "\n"
	sets, _, err := source.PinnedImageSets([]string{list(t, "x.json", strings.Replace(set, "NAME", "a", 1)+strings.Replace(set, "NAME", "b", 1))})
	if err != nil || len(sets) != 2 || !strings.HasSuffix(sets[1].Origin, "x.json:3") {
		t.Errorf("sets: %v, %+v", err, sets)
	}
	const pod = `{"kind": "Pod", "spec": {"containers": [{` + "\n" + `"image": "quay.io/a/b:1"}]}}` + "\n"
	names, err := source.Manifests(list(t, "x.json", pod+pod))
	if err != nil || len(names) != 2 || !strings.HasSuffix(names[1].Origin, "x.json:4") {
		t.Errorf("manifests: %v, %+v", err, names)
	}
	_, err = source.Manifests(list(t, "x.json", pod+pod+"{"))
	if !errors.Is(err, source.ErrManifest) || !strings.Contains(err.Error(), "line 4: after 2 JSON values") {
		t.Errorf("one that is cut off: %v", err)
	}
}

// What YAML lets an author write once counts wherever it is used.
func TestObjectsWithAnchors(t *testing.T) {
	objects, err := source.ReadObjects([]string{"-", list(t, "more.yaml", "containers: [{image: null}, {image: quay.io/site/more:1}]\n")}, strings.NewReader(`x: &defaults
  image: quay.io/site/app:1
  imagePullPolicy: Always
spec:
  containers:
  - <<: *defaults
  - <<: *defaults
    image: &name quay.io/site/own:1
  - image: *name
  initContainers: &list
  - *defaults
  ephemeralContainers: *list
`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, use := range objects.Uses {
		got = append(got, fmt.Sprintf("%s:%d %s:%d", use.Image.Text, use.Image.Line, use.Policy.Text, use.Policy.Line))
	}
	want := []string{
		"quay.io/site/app:1:2 Always:3", "quay.io/site/own:1:8 Always:3", "quay.io/site/own:1:9 :0",
		"quay.io/site/app:1:2 Always:3", "quay.io/site/app:1:2 Always:3", "quay.io/site/more:1:1 :0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestObjectsThatAreNone(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    error
		where   string
	}{
		"a template": {"kind: Pod\n---\na: b\n{{- if .Values.on }}\n", source.ErrManifest, "stdin: not a Kubernetes manifest: yaml: line 4"},
		"nothing":    {"", source.ErrNoImages, "-: no container"},
	} {
		if _, err := source.ReadObjects([]string{"-"}, strings.NewReader(c.content)); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.where) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
