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
	for name, content := range map[string]string{
		"all.yaml": rendered, "more/pod.json": `{"kind":"Pod","spec":{"containers":[{"image":"quay.io/site/pod:1"}]}}`,
		"README.md": "containers: [{image: x}]", "NOTES.txt": "nothing",
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	manifests, err := source.ReadManifests(t.Context(), dir, "")
	if err != nil || len(manifests.Possible)+len(manifests.Warnings) > 0 {
		t.Fatalf("got %+v, %v; want no error, no warnings and no unknown kinds", manifests, err)
	}
	var got []string
	for _, n := range manifests.Names {
		got = append(got, n.String()+" "+strings.TrimPrefix(n.Origin, dir+"/"))
	}
	want := []string{
		"quay.io/site/init:1 all.yaml:8", "quay.io/site/app" + digest + " all.yaml:11",
		"quay.io/site/side:latest all.yaml:13", "quay.io/site/model:3 all.yaml:16",
		"quay.io/site/job:2 all.yaml:24", "quay.io/site/debug:1 all.yaml:32", "quay.io/site/pod:1 more/pod.json:1",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// kinds are objects whose images are found, with those images.
var kinds = map[string]string{
	"apiVersion: tekton.dev/v1\nkind: Task\nspec:\n  stepTemplate: {image: quay.io/a/template:1}\n" +
		"  steps: [{image: quay.io/a/step:1, imagePullPolicy: Always}, {ref: {name: x}}]\n" +
		"  sidecars: [{image: quay.io/a/side:1}]\n": "quay.io/a/template:1 quay.io/a/step:1=Always quay.io/a/side:1",
	"apiVersion: tekton.dev/v1beta1\nkind: Pipeline\nspec:\n  tasks: [{taskSpec: {steps: [{image: " +
		"quay.io/a/task:1}]}}]\n  finally: [{taskSpec: {steps: [{image: quay.io/a/last:1}]}}]\n": "quay.io/a/task:1 quay.io/a/last:1",
	"apiVersion: tekton.dev/v1\nkind: TaskRun\nspec: {taskSpec: {steps: [{image: quay.io/a/run:1}]}}\n": "quay.io/a/run:1",
	"apiVersion: tekton.dev/v1\nkind: PipelineRun\nspec: {pipelineSpec: {tasks: [{taskSpec: {steps: [{image: " +
		"quay.io/a/run:1}]}}]}}\n": "quay.io/a/run:1",
	"apiVersion: tekton.dev/v1beta1\nkind: StepAction\nspec: {image: quay.io/a/action:1}\n": "quay.io/a/action:1",
	"apiVersion: triggers.tekton.dev/v1beta1\nkind: TriggerTemplate\nspec: {resourcetemplates: [{apiVersion: " +
		"tekton.dev/v1, kind: TaskRun, spec: {taskSpec: {steps: [{image: quay.io/a/run:1}]}}}]}\n": "quay.io/a/run:1",
	"apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - container: {image: quay.io/a/c:1, " +
		"imagePullPolicy: Never}\n    initContainers: [{image: quay.io/a/init:1}]\n" +
		"    sidecars: [{image: quay.io/a/side:1}]\n  - script: {image: quay.io/a/script:1, source: x}\n" +
		"  - containerSet: {containers: [{image: quay.io/a/set:1}]}\n  - steps: [[{inline: {container: {image: " +
		"quay.io/a/inline:1}}}]]\n": "quay.io/a/c:1=Never quay.io/a/init:1 quay.io/a/side:1 quay.io/a/script:1 " +
		"quay.io/a/set:1 quay.io/a/inline:1",
	"apiVersion: argoproj.io/v1alpha1\nkind: CronWorkflow\nspec: {workflowSpec: {templates: [{container: {image: " +
		"quay.io/a/cron:1}}]}}\n": "quay.io/a/cron:1",
	"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {template: {spec: {volumes: [{containerDisk: {image: " +
		"quay.io/a/disk:1, imagePullPolicy: Always}}], domain: {firmware: {kernelBoot: {container: {image: " +
		"quay.io/a/kernel:1}}}}}}}\n": "quay.io/a/kernel:1 quay.io/a/disk:1=Always",
	"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstance\nspec: {volumes: [{containerDisk: {image: " +
		"quay.io/a/disk:1}}]}\n": "quay.io/a/disk:1",
	"apiVersion: kubevirt.io/v1\nkind: VirtualMachineInstanceReplicaSet\n" +
		"spec: {template: {spec: {volumes: [{containerDisk: {image: quay.io/a/disk:1}}]}}}\n": "quay.io/a/disk:1",
	"apiVersion: pool.kubevirt.io/v1beta1\nkind: VirtualMachinePool\nspec: {virtualMachineTemplate: {spec: {template: " +
		"{spec: {volumes: [{containerDisk: {image: quay.io/a/disk:1}}]}}}}}\n": "quay.io/a/disk:1",
	"apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\nmetadata: {annotations: {containerImage: " +
		"quay.io/a/note:1}}\nspec:\n  install: {spec: {deployments: [{spec: {template: {spec: {containers: [{image: " +
		"quay.io/a/operator:1}]}}}}]}}\n  relatedImages: [{name: x, image: quay.io/a/operand:1}]\n": "quay.io/a/operator:1 " +
		"quay.io/a/operand:1",
	"apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nspec: {dataVolumeTemplates: [{metadata: {name: x}, spec: " +
		"{source: {registry: {url: 'docker://quay.io/a/root:1', pullMethod: node}}}}]}\n": "quay.io/a/root:1",
	"apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataVolume\n" +
		"spec: {source: {registry: {url: 'docker://quay.io/a/root:1'}}}\n---\napiVersion: cdi.kubevirt.io/v1beta1\n" +
		"kind: DataVolume\nspec: {source: {registry: {url: 'oci-archive:///x.tar'}}}\n": "quay.io/a/root:1",
	"apiVersion: cdi.kubevirt.io/v1beta1\nkind: VolumeImportSource\nspec: {source: {vddk: {url: 'https://x', " +
		"initImageURL: quay.io/a/vddk:1}}}\n": "quay.io/a/vddk:1",
	"apiVersion: cdi.kubevirt.io/v1beta1\nkind: DataImportCron\nspec: {schedule: 0 0 * * 0, template: {spec: {source: " +
		"{registry: {url: 'docker://quay.io/a/golden', pullMethod: node}}}}}\n": "quay.io/a/golden",
	"apiVersion: operators.coreos.com/v1alpha1\nkind: CatalogSource\n" +
		"spec: {sourceType: grpc, image: quay.io/a/catalog:1}\n": "quay.io/a/catalog:1",
	"apiVersion: serving.knative.dev/v1\nkind: Service\nspec: {template: {spec: {containers: [{image: " +
		"quay.io/a/served:1}]}}}\n": "quay.io/a/served:1",
	"apiVersion: serving.knative.dev/v1\nkind: Revision\nspec: {containers: [{image: quay.io/a/served:1}]}\n": "quay.io/a/served:1",
}

// A bug was to leave out images of these kinds without a warning, in lint too.
func TestKinds(t *testing.T) {
	for content, want := range kinds {
		_, name, _ := strings.Cut(content, "kind: ")
		name, _, _ = strings.Cut(name, "\n")
		t.Run(name, func(t *testing.T) { checkKind(t, content, strings.Fields(want)) })
	}
}

// checkKind checks that the images of content are the wanted ones, each with its policy.
func checkKind(t *testing.T, content string, want []string) {
	t.Helper()
	objects, err := source.ReadObjects(t.Context(), []string{list(t, "x.yaml", content)}, nil)
	if err != nil || slices.ContainsFunc(objects.Possible, func(p source.Possible) bool { return !strings.HasPrefix(p.Path, "metadata") }) {
		t.Errorf("got %v and the possible images %+v, want neither\n%s", err, objects.Possible, content)
	}
	var got []string
	for _, use := range objects.Uses {
		text := use.Image.Text
		if use.Policy.Text != "" {
			text += "=" + use.Policy.Text
		}
		got = append(got, text)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q\n%s", got, want, content)
	}
	if l, err := source.ReadManifests(t.Context(), list(t, "x.yaml", content), ""); err != nil || len(l.Names) != len(want) {
		t.Errorf("got %+v, %v; want the images %q\n%s", l, err, want, content)
	}
}

// The schema of a CRD names images in examples and defaults.
func TestNoImagesInSchemas(t *testing.T) {
	const crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n" +
		"spec: {versions: [{schema: {image: {default: quay.io/a/b:1}, baseImage: quay.io/a/b:1}}]}\n"
	if l, err := source.ReadManifests(t.Context(), list(t, "x.yaml", crd), ""); !errors.Is(err, source.ErrNoImages) {
		t.Errorf("got %+v, %v, want no images", l, err)
	}
}

// An expression that Tekton or Argo evaluates at run time is not an error: its image is unknown at build
// time.
func TestExpressions(t *testing.T) {
	const task = "apiVersion: tekton.dev/v1\nkind: Task\nspec:\n  steps:\n  - image: $(params.image)\n"
	const workflow = "apiVersion: argoproj.io/v1alpha1\nkind: Workflow\nspec:\n  templates:\n  - container:\n" +
		"      image: \"quay.io/a/{{inputs.parameters.image}}\"\n"
	l, err := source.ReadManifests(t.Context(), list(t, "x.yaml", task+"  - image: quay.io/a/b:1\n---\n"+workflow), "")
	if err != nil || len(l.Names) != 1 || len(l.Warnings) != 2 || !strings.Contains(l.Warnings[0],
		"x.yaml:5: left out: image $(params.image) is filled in when the object runs") ||
		!strings.Contains(l.Warnings[1], "x.yaml:13: ") {
		t.Errorf("got %+v, %v; want one name, and a warning for each of lines 5 and 13", l, err)
	}
	if _, err := source.ReadManifests(t.Context(), list(t, "x.yaml", task), ""); !errors.Is(err, source.ErrNoImages) ||
		!strings.Contains(err.Error(), "$(params.image)") {
		t.Errorf("got %v, want %v with $(params.image)", err, source.ErrNoImages)
	}
	for _, content := range []string{
		"kind: Pod\nspec: {containers: [{image: $(IMAGE)}]}\n",
		strings.Replace(workflow, "\"quay.io/a/{{inputs.parameters.image}}\"", "{{ .Values.image }}", 1),
	} {
		if _, err := source.ReadManifests(t.Context(), list(t, "x.yaml", content), ""); !errors.Is(err, pinset.ErrBadName) {
			t.Errorf("got %v, want %v", err, pinset.ErrBadName)
		}
	}
}

func TestInvalidManifests(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    error
		text    string // of the error
	}{
		"a template": {"{{- if .Values.on }}\nkind: Pod\n{{- end }}\n", source.ErrManifest, "x.yaml"},
		"short names": {
			"spec:\n  containers:\n  - image: nginx:1\n  - image: busybox\n", pinset.ErrShortName, "x.yaml:4: image \"busybox\"",
		},
		"no container": {"kind: ConfigMap\n", source.ErrNoImages, "x.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := source.ReadManifests(t.Context(), list(t, "x.yaml", c.content), ""); !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	owner := "ownerReferences: [{apiVersion: machineconfiguration.openshift.io/v1, kind: PinnedImageSet, name: x}]"
	if objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(owner)); err != nil || len(objects.Sets) > 0 {
		t.Errorf("a set as owner: got the sets %+v, %v; want none", objects.Sets, err)
	}
}

// A merge key may have a list of mappings, and an alias may refer to a node that contains it. Bugs were
// to ignore the former, and a stack overflow with the latter.
func TestAliases(t *testing.T) {
	content := "a: &a {imagePullPolicy: Always}\nb: &b {image: quay.io/a/b:1}\nspec:\n  containers:\n  - <<: [*a, *b]\n"
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
	if err != nil || len(objects.Uses) != 1 || objects.Uses[0].Policy.Text != "Always" ||
		objects.Uses[0].Image.Text != "quay.io/a/b:1" {
		t.Errorf("got %+v, %v; want quay.io/a/b:1 with the policy Always", objects.Uses, err)
	}
	bomb := "a0: &a0 x\n"
	for i := range 20 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	for text, content := range map[string]string{
		"an alias refers to a node that contains it": "&a\nkind: List\nitems: [*a]\n", "too large": bomb,
	} {
		t.Run(text, func(t *testing.T) {
			file := list(t, "x.yaml", content)
			_, _, inMirrors := source.ReadMirrors(t.Context(), []string{file})
			_, inManifests := source.ReadManifests(t.Context(), file, "")
			_, _, inSets := source.ReadSets(t.Context(), []string{file})
			_, inList := source.ReadList(t.Context(), file, source.Options{Platform: "linux/amd64"})
			for want, err := range map[error]error{
				source.ErrMirrors: inMirrors, source.ErrManifest: inManifests, pinset.ErrNotSet: inSets, source.ErrList: inList,
			} {
				if !errors.Is(err, want) || !strings.Contains(err.Error(), text) || !strings.Contains(err.Error(), "x.yaml: ") {
					t.Errorf("got %v, want %v with %q and the file", err, want, text)
				}
			}
		})
	}
}

// Aliases are resolved in sets, mirrors and lists too. Bugs were that pinnedImages: *p had no images, and
// that spec: *s was missing.
func TestAliasesInOtherInputs(t *testing.T) {
	const set = "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: x}\n"
	for name, content := range map[string]string{
		"pinnedImages": "kind: List\nmetadata: {annotations: {x: &p [{name: 'quay.io/a/b" + digest + "'}]}}\nitems:\n- " +
			strings.ReplaceAll(set, "\n", "\n  ") + "spec: {pinnedImages: *p}\n",
		"spec":     set + "status: &s\n  pinnedImages:\n  - name: quay.io/a/b" + digest + "\nspec: *s\n",
		"an image": set + "status: {x: &i {name: 'quay.io/a/b" + digest + "'}}\nspec: {pinnedImages: [{<<: *i}]}\n",
	} {
		t.Run(name, func(t *testing.T) {
			file := list(t, "x.yaml", content)
			sets, _, err := source.ReadSets(t.Context(), []string{file})
			if err != nil || len(sets) != 1 || len(sets[0].Images) != 1 {
				t.Errorf("ReadSets: got %+v, %v; want a set with one image", sets, err)
			}
			objects, err := source.ReadObjects(t.Context(), []string{file}, nil)
			if err != nil || len(objects.Sets) != 1 || len(objects.Sets[0].Images) != 1 {
				t.Errorf("ReadObjects: got %+v, %v; want a set with one image", objects.Sets, err)
			}
		})
	}
	rules, _, err := source.ReadMirrors(t.Context(), []string{
		list(t, "x.yaml", "apiVersion: config.openshift.io/v1\nkind: ImageDigestMirrorSet\n"+
			"status: &s {imageDigestMirrors: [{source: quay.io/a, mirrors: [mirror.lab/a]}]}\nspec: *s\n"),
	})
	if err != nil || len(rules) != 1 {
		t.Errorf("mirrors: got %+v, %v; want one rule", rules, err)
	}
	l, err := source.ReadList(t.Context(), list(t, "x.yaml", "kind: Images\nmetadata: {annotations: {x: &n quay.io/a/b:1}}\n"+
		"spec: {images: [{name: *n}]}\n"), source.Options{Platform: "linux/amd64"})
	if err != nil || len(l.Names) != 1 || l.Names[0].String() != "quay.io/a/b:1" {
		t.Errorf("a list: got %+v, %v; want quay.io/a/b:1", l, err)
	}
}

// JSON objects may follow each other, as jq '.items[]' prints them. A bug was to reject them as invalid
// YAML.
func TestConsecutiveJSON(t *testing.T) {
	const set = `{"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "PinnedImageSet", "metadata": {"name": "NAME"},` + "\n" + ` "spec": {"pinnedImages": [{"name": "quay.io/a/b` + digest + `"}]}}` + "\n"
	sets, _, err := source.ReadSets(t.Context(), []string{
		list(t, "x.json", strings.Replace(set, "NAME", "a", 1)+strings.Replace(set, "NAME", "b", 1)),
	})
	if err != nil || len(sets) != 2 || !strings.HasSuffix(sets[1].Origin, "x.json:3") {
		t.Errorf("sets: got %+v, %v; want 2, the second from line 3", sets, err)
	}
	const pod = `{"kind": "Pod", "spec": {"containers": [{` + "\n" + `"image": "quay.io/a/b:1"}]}}` + "\n"
	l, err := source.ReadManifests(t.Context(), list(t, "x.json", pod+pod), "")
	if err != nil || len(l.Names) != 2 || !strings.HasSuffix(l.Names[1].Origin, "x.json:4") {
		t.Errorf("manifests: got %+v, %v; want 2 names, the second from line 4", l, err)
	}
	_, err = source.ReadManifests(t.Context(), list(t, "x.json", pod+pod+"{"), "")
	const want = "line 4: after 2 JSON values"
	if !errors.Is(err, source.ErrManifest) || !strings.Contains(err.Error(), want) {
		t.Errorf("a truncated object: got %v, want %v with %q", err, source.ErrManifest, want)
	}
}

// Anchors are resolved wherever an alias or a merge key refers to them.
func TestObjectsWithAnchors(t *testing.T) {
	objects, err := source.ReadObjects(t.Context(), []string{"-",
		list(t, "more.yaml", "containers: [{image: null}, {image: quay.io/site/more:1}]\n")}, strings.NewReader(`x: &defaults
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

func TestInvalidObjects(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    error
		text    string // of the error
	}{
		"a template": {
			"kind: Pod\n---\na: b\n{{- if .Values.on }}\n", source.ErrManifest, "stdin: not a Kubernetes manifest: yaml: line 4",
		},
		"nothing": {"", source.ErrNoImages, "-: no container"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(c.content)); !errors.Is(err, c.want) ||
				!strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

// Image volumes are told apart from images that run, since a node mounts them in another way.
func TestImageVolumes(t *testing.T) {
	const content = "kind: Pod\nspec:\n  containers: [{image: quay.io/a/run:1}]\n" +
		"  volumes: [{name: model, image: {reference: quay.io/a/model:1, pullPolicy: Never}}]\n"
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	var volumes []string
	for _, use := range objects.Uses {
		if use.Volume {
			volumes = append(volumes, use.Image.Text+" "+use.Policy.Text)
		}
	}
	if want := []string{"quay.io/a/model:1 Never"}; !slices.Equal(volumes, want) {
		t.Errorf("got the image volumes %v, want %v", volumes, want)
	}
}
