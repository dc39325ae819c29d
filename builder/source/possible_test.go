package source_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/document"
)

// inObject returns an object of an unknown kind with fields of its spec, in one line.
func inObject(fields string) string {
	return "apiVersion: example.com/v1\nkind: Fleet\nmetadata: {name: x}\nspec: {" + fields + "}\n"
}

// inEnv returns a pod with a variable.
func inEnv(name, value string) string {
	return "apiVersion: v1\nkind: Pod\nspec: {containers: [{name: x, env: [{name: " + name + ", value: '" + value + "'}]}]}\n"
}

// found returns the images that a stream of objects names for certain, and those that may be images.
func found(t *testing.T, content string) (certain, possible string) {
	t.Helper()
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
	if err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	var uses, others []string
	for _, use := range objects.Uses {
		uses = append(uses, use.Image.Text)
	}
	for _, p := range objects.Possible {
		others = append(others, p.Reference.String())
	}
	return strings.Join(uses, " "), strings.Join(others, " ")
}

// packed returns a text in gzip.
func packed(text string) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.Bytes()
}

// A bug was that only known keys of known kinds were read: an operator's operands, named in its variables, were in no
// appliance, and lint had no finding.
func TestPlacesOfImages(t *testing.T) {
	pod := "apiVersion: v1\nkind: Pod\nspec: {containers: [{image: quay.io/a/deep:1}]}\n"
	encoded := base64.StdEncoding.EncodeToString([]byte(pod))
	block := func(text string) string {
		return "|\n    " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n    ") + "\n"
	}
	for name, c := range map[string]struct{ content, certain, possible string }{
		"a variable of an operator":   {inEnv("RELATED_IMAGE_PROXY", "quay.io/a/proxy:1"), "quay.io/a/proxy:1", ""},
		"a variable that says image":  {inEnv("SIDECAR_IMAGE", "quay.io/a/side:1"), "quay.io/a/side:1", ""},
		"a short name in a variable":  {inEnv("SIDECAR_IMAGE", "team/side:1"), "", "docker.io/team/side:1"},
		"another variable":            {inEnv("RUNNER", "quay.io/a/runner:1"), "", "quay.io/a/runner:1"},
		"versions in a variable":      {inEnv("VERSIONS", `3.9.0=quay.io/a/k:3.9.0,4.0.0=quay.io/a/k:4.0.0`), "", "quay.io/a/k:3.9.0 quay.io/a/k:4.0.0"},
		"a list of JSON in one":       {inEnv("ALL", `["quay.io/a/b:1", "quay.io/a/c:1"]`), "", "quay.io/a/b:1 quay.io/a/c:1"},
		"a flag":                      {inObject("args: ['--acme-http01-solver-image=quay.io/a/solver:1', --port=8080]"), "quay.io/a/solver:1", ""},
		"a flag and its value":        {inObject("args: [--solver-image, 'quay.io/a/solver:1']"), "quay.io/a/solver:1", ""},
		"another flag":                {inObject("args: ['--reloader=quay.io/a/reloader:1']"), "", "quay.io/a/reloader:1"},
		"a shell command":             {inObject(`command: [sh, -c, "run --rm quay.io/a/tool:1 && true"]`), "", "quay.io/a/tool:1"},
		"a custom resource":           {inObject("image: quay.io/a/b:1, proxyImage: quay.io/a/c" + digest), "quay.io/a/b:1 quay.io/a/c" + digest, ""},
		"a transport":                 {inObject("baseImage: 'docker://quay.io/a/b:1'"), "quay.io/a/b:1", ""},
		"a name of Docker's library":  {inObject("image: docker.io/nginx:1"), "docker.io/library/nginx:1", ""},
		"neither tag nor digest":      {inObject("baseImage: quay.io/a/b"), "", "quay.io/a/b:latest"},
		"without a registry":          {inObject("image: 'nginx:1.27', images: [team/app]"), "", "docker.io/library/nginx:1.27 docker.io/team/app:latest"},
		"another key":                 {inObject("url: quay.io/a/b:1, id: team/app:1.2"), "", "quay.io/a/b:1 docker.io/team/app:1.2"},
		"a key of a mapping":          {inObject("mirrors: {'quay.io/a/b:1': here}"), "", "quay.io/a/b:1"},
		"related images":              {inObject("relatedImages: [{name: x, image: 'quay.io/a/b:1'}]"), "quay.io/a/b:1", ""},
		"an annotation":               {"kind: Pod\nmetadata: {annotations: {images.v1_30_3.x: 'quay.io/a/b:1', image: 'quay.io/a/c:1'}}\n", "", "quay.io/a/b:1 quay.io/a/c:1"},
		"a model of KServe":           {inObject("storageUri: 'oci://quay.io/a/model:1'"), "quay.io/a/model:1", ""},
		"values of a chart":           {"image: quay.io/a/b:1\n", "", "quay.io/a/b:1"},
		"a pod in a text":             {"kind: ConfigMap\ndata:\n  pod.yaml: " + block(pod), "quay.io/a/deep:1", ""},
		"values in a text":            {"kind: HelmChart\nspec:\n  valuesContent: " + block("image: {repository: quay.io/a/b, tag: v1}\n"), "", "quay.io/a/b:v1"},
		"a template in a text":        {"kind: ConfigMap\ndata:\n  t: " + block("{{ if .x }}\nimage: \"quay.io/a/b:1\"\nother: nginx:1.2\n{{ end }}"), "", "quay.io/a/b:1"},
		"an image in a template":      {"kind: ConfigMap\ndata:\n  t: " + block("{{ if .x }}\nimage: nginx:1.2\n{{ end }}"), "", "docker.io/library/nginx:1.2"},
		"JSON in a text":              {inObject(`raw: '{"pod": {"image": "quay.io/a/b:1"}}'`), "", "quay.io/a/b:1"},
		"escaped JSON in a text":      {inObject(`raw: 'x := "{\"image\":\"quay.io/a/b:1\"}"'`), "", "quay.io/a/b:1"},
		"base64 of a pod":             {inObject("args: [" + encoded + "]"), "quay.io/a/deep:1", ""},
		"base64 of a text":            {inObject("args: [" + base64.StdEncoding.EncodeToString([]byte("please run quay.io/a/b:1 {{ now }}")) + "]"), "", "quay.io/a/b:1"},
		"a data URL":                  {inObject("source: 'data:,run%20quay.io%2Fa%2Fb:1'"), "", "quay.io/a/b:1"},
		"base64 in a data URL":        {inObject("source: 'data:text/plain;charset=utf-8;base64," + encoded + "'"), "quay.io/a/deep:1", ""},
		"gzip in a data URL":          {inObject("source: 'data:;base64," + base64.StdEncoding.EncodeToString(packed(pod)) + "'"), "quay.io/a/deep:1", ""},
		"a release of Helm":           {inObject("release: " + base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString(packed(pod))))), "quay.io/a/deep:1", ""},
		"gzip of what is no text":     {inObject("x: " + base64.StdEncoding.EncodeToString(packed(pod+"\x00"))), "", ""},
		"a data URL that is none":     {inObject("x: 'data:;base64,%zz', y: 'data:quay.io/a/b:1', z: 'data:;base64,!'"), "", ""},
		"a JSON patch":                {inObject("patch: '[{\"op\": \"add\", \"path\": \"/spec/containers/0/image\", \"value\": \"nginx:1.2\"}]'"), "", "docker.io/library/nginx:1.2"},
		"a model of an LLM in KServe": {inObject("model: {uri: 'oci://quay.io/a/model:1'}"), "", "quay.io/a/model:1"},
		"a pod in a text in a text":   {"kind: ConfigMap\ndata:\n  x: " + block("kind: ConfigMap\ndata:\n  y: |\n    "+strings.ReplaceAll(pod, "\n", "\n    ")), "quay.io/a/deep:1", ""},
		"a template of pods in it":    {"kind: ConfigMap\ndata:\n  t: " + block(`spec: {containers: [{image: "{{ .Values.image }}"}, {image: auto}, {image: quay.io/a/b:1}]}`), "quay.io/a/b:1", ""},
		"a CronJob in a policy":       {inObject("templates: [{objectDefinition: {apiVersion: batch/v1, kind: CronJob, spec: {containers: [{image: 'quay.io/a/b:1'}]}}}]"), "quay.io/a/b:1", ""},
		"what the object was applied": {"kind: Pod\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{\"image\":\"quay.io/a/b:1\"}'}}\n", "", ""},
		"a status":                    {"apiVersion: example.com/v1\nkind: Fleet\nstatus: {image: 'quay.io/a/b:1'}\n", "", ""},
		"certain in another object":   {inObject("url: quay.io/a/b:1") + "---\n" + inObject("image: quay.io/a/b:1"), "quay.io/a/b:1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if certain, possible := found(t, c.content); certain != c.certain || possible != c.possible {
				t.Errorf("got %q for certain and %q as possible, want %q and %q\n%s", certain, possible, c.certain, c.possible, c.content)
			}
		})
	}
}

// A bug was to leave out a part of a name, or to propose latest where the version stood beside the name.
func TestNamesInParts(t *testing.T) {
	for fields, want := range map[string]string{
		"image: {repository: quay.io/a/b, tag: '1'}":                                       "quay.io/a/b:1",
		"image: {repository: a/b, tag: '1'}":                                               "docker.io/a/b:1",
		"image: {registry: quay.io, repository: a/b, tag: '1'}":                            "quay.io/a/b:1",
		"image: {registry: quay.io/a, repository: rules, digest: '" + digest[1:] + "'}":    "quay.io/a/rules" + digest,
		"image: {repository: quay.io/a/b, tag: v1, sha: " + digest[len("@sha256:"):] + "}": "quay.io/a/b:v1" + digest,
		"image: {repository: quay.io/a/b, tag: '" + digest[1:] + "'}":                      "quay.io/a/b" + digest,
		"image: {registry: quay.io, repository: a, name: b, tag: '1'}":                     "quay.io/a/b:1",
		"image: {registry: quay.io, name: a/b, tag: '1'}":                                  "quay.io/a/b:1",
		"image: {name: quay.io/a/b, tag: '1'}":                                             "quay.io/a/b:1",
		"image: {repository: quay.io/a/b}, x: {}":                                          "quay.io/a/b:latest",
		"images: [{name: quay.io/a/b, newName: quay.io/c/d, newTag: '2'}]":                 "quay.io/c/d:2",
		"driver: {repository: nvcr.example/n, image: driver, version: 570.86.15}":          "nvcr.example/n/driver:570.86.15",
		"thanos: {baseImage: quay.io/a/thanos, version: v0.37.0}":                          "quay.io/a/thanos:v0.37.0",
		"version: v1.20.11+k3s1, upgrade: {image: a/k3s-upgrade}":                          "docker.io/a/k3s-upgrade:v1.20.11-k3s1",
		"rancherImage: quay.io/a/rancher, rancherImageTag: v2":                             "quay.io/a/rancher:v2",
		"proxyImage: quay.io/a/proxy, proxyVersion: v2":                                    "quay.io/a/proxy:v2",
		"global: {hub: quay.io/istio, tag: 1.2.3, proxy: {image: proxyv2}}":                "quay.io/istio/proxyv2:1.2.3",
		"global: {hub: quay.io/istio, tag: 1.2.3}, pilot: {image: pilot}":                  "quay.io/istio/pilot:1.2.3",
		"base: quay.io/a, components: {one: {image: x, tag: '1'}}":                         "quay.io/a/x:1",
		"hub: '', tag: '', image: pilot, global: {hub: quay.io/istio, tag: 1.2.3}":         "quay.io/istio/pilot:1.2.3",
		"global: {imageRegistry: quay.io/a, imageTag: v1}, ui: {image: {repository: ui}}":  "quay.io/a/ui:v1",
		"version: v2, runtime: {one: {image: a/one, tag: ''}, two: {image: a/two}}":        "docker.io/a/one:v2 docker.io/a/two:latest",
		"hook: {image: {registry: docker.io, repo: a/kubectl, tag: 1.25.15}}":              "docker.io/a/kubectl:1.25.15",
		"odh: {base: quay.io/a/b, digest: '" + digest[1:] + "'}":                           "quay.io/a/b" + digest,
		"set: {image.repository: quay.io/a/b, image.tag: v1}":                              "quay.io/a/b:v1",
		"set: {ui.image.repository: b, ui.image.registry: quay.io, ui.image.tag: v1}":      "quay.io/b:v1",
		"p: [{name: image.repository, value: a/b}, {name: image.tag, value: v1}]":          "docker.io/a/b:v1",
		"parameters: [{name: IMAGE, value: quay.io/a/b}, {name: IMAGE_TAG, value: v1}]":    "quay.io/a/b:v1",
		"env: [{name: PROXY_IMAGE, value: quay.io/a/b}, {name: PROXY_TAG, value: v1}]":     "quay.io/a/b:v1",
		"annotations: {app.example/repository: quay.io/a/b, app.example/tag: v1}":          "",
		"data: {git.repository: a/b, git.tag: v1, app.name: x, app.version: '1'}":          "",
		"operator: {repository: nvcr.example/n, image: operator}":                          "nvcr.example/n/operator:latest",
		"image: a/server, defaultImageVersion: '1', defaultGpuImageVersion: 1-gpu":         "docker.io/a/server:1 docker.io/a/server:1-gpu",
		"IMAGE_NAME: quay.io/a/b, IMAGE_VERSION: v1":                                       "quay.io/a/b:v1",
		"image-remote: quay.io/a, image-name: b, image-tag: v1, image-key: b":              "quay.io/a/b:v1",
		"value: [{name: x, image: busybox, command: [sh]}]":                                "docker.io/library/busybox:latest",
		"vgpu: {repository: '', image: manager, args: [x]}":                                "",
		"source: {repo: example/app, tag: v1}":                                             "",
		"base: quay.io/a, tag: v1":                                                         "",
		"image: {repository: '{{ .x }}', tag: '1'}":                                        "",
		"chart: {repository: 'https://charts.example.com', version: 1.2.3}":                "",
		"source: {chart: app, repository: quay.io/charts, version: 1.2.3}":                 "",
		"repository: github.com/a/b, version: v1":                                          "",
		"imagePullSecret: {registry: quay.io, name: a}":                                    "",
		"database: {name: orders, version: '1'}":                                           "",
	} {
		t.Run(fields, func(t *testing.T) {
			if certain, possible := found(t, inObject(fields)); certain != "" || possible != want {
				t.Errorf("got %q for certain and %q as possible, want the latter %q", certain, possible, want)
			}
		})
	}
}

// What looks like an image in the manifests of public projects, and is none.
func TestNoImages(t *testing.T) {
	for _, fields := range []string{
		"a: app.kubernetes.io/name, b: 'node.kubernetes.io/not-ready:NoExecute', c: 'example.com/dedicated:NoSchedule'",
		"url: 'https://quay.io/a/b:1', git: 'git@github.com:a/b.git', from: github.com/a/b:main",
		"address: '10.0.0.1:5000', target: 'monitoring/prometheus:9090', host: 'db.example.com:5432/orders'",
		"at: 'server/node.go:586', file: 'etc/app/config.yaml:12', module: 'golang.org/x/net:v1'",
		"kind: {a: 'apps/v1:Deployment'}, type: 'text/html; charset=utf-8', role: 'arn:aws:iam::123456789012:role/x'",
		"chart: 'oci://quay.io/charts/app:1.2', mail: 'a@quay.io', image: '*.example.com/*', more: 'controller:latest'",
		"in: 'image-registry.openshift-image-registry.svc:5000/a/b:1', imagePolicy: Always, time: '2026/01:02'",
		"imagePullSecrets: [{name: quay.io/a/b}], from: {kind: ImageStreamTag, name: 'b:1'}, image: auto",
		"gallery: /subscriptions/x/images/y/versions/1, image: ubuntu-22.04, script: 'curl $REGISTRY/a/b:1 %s/c:2'",
		"at: 'quay.io/a/b:v$(VERSION)', in: 'quay.io/a/b:v{{ .version }}'",
	} {
		if certain, possible := found(t, inObject(fields)); certain+possible != "" {
			t.Errorf("got %q for certain and %q as possible, want neither\n%s", certain, possible, fields)
		}
	}
	for _, object := range []string{
		"apiVersion: kyverno.io/v1\nkind: ClusterPolicy\nspec: {rules: [{imageReferences: ['quay.io/a/b:1']}]}\n",
		"apiVersion: kyverno.io/v1\nkind: Policy\nspec: {pattern: {spec: {containers: [{image: '!*:latest'}]}}}\n",
		"apiVersion: kyverno.io/v1\nkind: Policy\nspec: {pattern: {spec: {containers: [{image: 'quay.io/{{ x }}'}]}}}\n",
		"apiVersion: kyverno.io/v1\nkind: Policy\nspec: {pattern: {spec: {containers: [{image: 'quay.io/a/b:1.*'}]}}}\n",
		"apiVersion: scans.example.com/v1\nkind: PodReport\nspec: {image: {repository: a/b, tag: '1'}}\n",
		"apiVersion: v1\nkind: Event\nmessage: 'Pulling image quay.io/a/b:1'\n",
	} {
		if certain, possible := found(t, object); certain+possible != "" {
			t.Errorf("got %q for certain and %q as possible, want neither\n%s", certain, possible, object)
		}
	}
}

// Keys and mappings that name images in other ways, as operators do. A bug was that lint reported none of them.
func TestKeysOfImages(t *testing.T) {
	for fields, want := range map[string]string{
		"imageName: quay.io/a/postgres:17":                              "quay.io/a/postgres:17 and ",
		"imageRef: quay.io/a/b:1":                                       "quay.io/a/b:1 and ",
		"osImageURL: quay.io/a/os" + digest:                             "quay.io/a/os" + digest + " and ",
		"OPERATOR_IMAGE_NAME: quay.io/a/b:1":                            "quay.io/a/b:1 and ",
		"imagePullSpec: quay.io/a/b:1":                                  "quay.io/a/b:1 and ",
		"IMAGE_REGISTRY: quay.io/a":                                     " and ",
		"images: [{name: quay.io/a/b:1}]":                               " and quay.io/a/b:1",
		"proxyImages: {a: quay.io/a/b:1}":                               " and quay.io/a/b:1",
		"from: {kind: DockerImage, name: quay.io/a/b:1}":                " and quay.io/a/b:1",
		"from: {kind: DockerImage, name: quay.io/a/b}":                  " and quay.io/a/b:latest",
		"from: {kind: ImageStreamTag, name: quay.io/a/b:1}":             " and ",
		"image: {registry: 'https://quay.io', repository: a, tag: '1'}": " and quay.io/a:1",
	} {
		if certain, possible := found(t, inObject(fields)); certain+" and "+possible != want {
			t.Errorf("%s: got %q and %q, want %q", fields, certain, possible, want)
		}
	}
}

// Each name has its line in the file, also in a text, and the path of its field.
func TestPositionsOfPossibleImages(t *testing.T) {
	const content = `apiVersion: v1
kind: ConfigMap
metadata:
  name: site
data:
  values: |
    a: 1
    workers:
    - one: {url: quay.io/a/one:1}
  words: |
    {{ a template }}
    uses quay.io/a/two:1
  json: '{"url": "quay.io/a/three:1"}'
`
	l, err := source.ReadManifests(t.Context(), list(t, "x.yaml", content), "")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range l.Possible {
		got = append(got, fmt.Sprintf("%d %s %s %s", p.Image.Line, p.Object, p.Path, p.Reference))
	}
	want := []string{
		"9 ConfigMap/site data.values.workers[0].one.url quay.io/a/one:1", "12 ConfigMap/site data.words quay.io/a/two:1",
		"13 ConfigMap/site data.json.url quay.io/a/three:1",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	const table = "3 images:\n  ConfigMap/site  data.values.workers[0].one.url  quay.io/a/one:1\n" +
		"  ConfigMap/site  data.words                      quay.io/a/two:1\n" +
		"  ConfigMap/site  data.json.url                   quay.io/a/three:1"
	if text := source.DescribePossible(l.Possible); text != table {
		t.Errorf("got\n%s\nwant\n%s", text, table)
	}
}

// The user says what happens to names that may be images.
func TestChoiceOfPossibleImages(t *testing.T) {
	file := list(t, "x.yaml", inObject("image: quay.io/a/sure:1, url: quay.io/a/maybe:1"))
	for choice, want := range map[source.PossibleImages]string{
		"": "quay.io/a/sure:1 and 1", source.ListPossible: "quay.io/a/sure:1 and 1",
		source.TakePossible: "quay.io/a/sure:1 quay.io/a/maybe:1 and 0", source.IgnorePossible: "quay.io/a/sure:1 and 0",
	} {
		l, err := source.ReadManifests(t.Context(), file, choice)
		var names []string
		for _, n := range l.Names {
			names = append(names, n.String())
		}
		if got := fmt.Sprintf("%s and %d", strings.Join(names, " "), len(l.Possible)); err != nil || got != want {
			t.Errorf("%q: got %s, %v, want %s", choice, got, err, want)
		}
	}
	l, err := source.ReadManifests(t.Context(), file, source.RefusePossible)
	if err != nil || len(l.Possible) != 1 || !l.Possible[0].Refused {
		t.Errorf("refuse: got %+v, %v, want one that is refused unless another source has it", l, err)
	}
	if err := (&source.Manifests{Paths: []string{file}, Possible: "yes"}).Validate(); err == nil {
		t.Error("got no error of another choice")
	}
	for text, want := range map[string]source.Manifests{
		"manifests: [a]": {Paths: []string{"a"}},
		"manifests: {paths: [a], possible: take}": {Paths: []string{"a"}, Possible: source.TakePossible},
	} {
		if entries, err := decodeEntries("- " + text); err != nil || !cmp.Equal(entries[0].Source, source.Source(&want)) {
			t.Errorf("%s: got %+v, %v", text, entries, err)
		}
	}
}

// The aliases of each text may expand to a million nodes. Without a budget for all texts of a file, many small ones
// would be read for days.
func TestAliasesInTextsHaveABudget(t *testing.T) {
	bomb := "a0: &a0 x\n"
	for i := range 5 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	content := "kind: ConfigMap\ndata:\n"
	for i := range 1000 {
		content += fmt.Sprintf("  t%d: |\n    %s\n", i, strings.ReplaceAll(strings.TrimSpace(bomb), "\n", "\n    "))
	}
	_, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
	if !errors.Is(err, document.ErrTooLarge) || !strings.Contains(err.Error(), "stdin:") {
		t.Errorf("got %v, want %v with the line", err, document.ErrTooLarge)
	}
}

// What a message says of a file of others has a limit, and breaks no line.
func TestPathsOfOthers(t *testing.T) {
	deep := strings.Repeat("{a: ", 1000) + "quay.io/a/b:1" + strings.Repeat("}", 1000)
	for name, content := range map[string]string{
		"deep": "kind: ConfigMap\ndata: " + deep, "long": "kind: ConfigMap\ndata: {? " + strings.Repeat("k", 9000) + " : quay.io/a/b:1}",
		"lines": "kind: ConfigMap\nmetadata: {name: \"a\\nb\"}\ndata: {\"x\\n  y\\t\": quay.io/a/b:1}",
	} {
		objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
		if err != nil || len(objects.Possible) != 1 {
			t.Fatalf("%s: got %+v, %v, want one name", name, objects.Possible, err)
		}
		p := objects.Possible[0]
		if len(p.Path) > 200 || strings.ContainsAny(p.Path+p.Object, "\n\t") {
			t.Errorf("%s: got %q in %q, want a short path in one line", name, p.Path, p.Object)
		}
	}
}

// Texts in texts have a budget: each level of base64 would be read again.
func TestTextsInTextsEnd(t *testing.T) {
	text := "run quay.io/a/deep:1 {{ now }}"
	for range 12 {
		text = base64.StdEncoding.EncodeToString([]byte(text))
	}
	if certain, possible := found(t, inObject("x: "+text)); certain+possible != "" {
		t.Errorf("got %q and %q out of 12 levels", certain, possible)
	}
	names := slices.Repeat([]string{"quay.io/a/b:1"}, 50_000)
	if _, possible := found(t, "kind: ConfigMap\ndata: {x: '"+strings.Join(names, " ")+"'}\n"); possible != "quay.io/a/b:1" {
		t.Errorf("got %.100s, want the name once", possible)
	}
}

// A text that stands too deep in others is not read, and that is said, with its object and path.
func TestTextsThatAreTooDeep(t *testing.T) {
	nested := func(levels int) string {
		text := `{"kind": "Pod", "spec": {"containers": [{"image": "quay.io/a/deep:1"}]}}`
		for range levels {
			text = fmt.Sprintf(`{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}, "data": {"x": %q}}`, text)
		}
		return text
	}
	for levels, want := range map[int]int{1: 0, 6: 0, 7: 1, 9: 1} {
		objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(nested(levels)))
		if err != nil {
			t.Fatal(err)
		}
		if len(objects.Unread) != want {
			t.Errorf("%d levels: got %v, want %d", levels, objects.Unread, want)
		}
		for _, u := range objects.Unread {
			if got := u.String(); got != "data.x in ConfigMap/a is not read: it stands in 6 texts, one in the other" {
				t.Errorf("got %q", got)
			}
		}
	}
	file := list(t, "a.yaml", nested(7)+"\n---\n"+nested(0))
	l, err := source.ReadManifests(t.Context(), file, "")
	if err != nil || len(l.Warnings) != 1 || !strings.Contains(l.Warnings[0], "a.yaml:1: data.x in ConfigMap/a is not read") {
		t.Errorf("got %q, %v, want one warning", l.Warnings, err)
	}
}

// A packed chart is not read, and that is said: its images would be missing without a word.
func TestArchivesInTexts(t *testing.T) {
	chart, err := sample.Tar(sample.File("values.yaml", "image: quay.io/a/b:1\n"))
	if err != nil {
		t.Fatal(err)
	}
	text := "kind: HelmChart\nmetadata: {name: a}\nspec:\n  chartContent: " +
		base64.StdEncoding.EncodeToString(packed(string(chart))) + "\n"
	objects, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(text))
	if err != nil || len(objects.Unread) != 1 ||
		!strings.HasPrefix(objects.Unread[0].String(), "spec.chartContent in HelmChart/a is not read: it is an archive") {
		t.Errorf("got %v, %v, want that the archive is not read", objects.Unread, err)
	}
}

// Texts in gzip have the budget of all texts in texts, also those that are no text once they are unpacked.
func TestTextsInGzipHaveABudget(t *testing.T) {
	bomb := base64.StdEncoding.EncodeToString(packed(strings.Repeat("\x00", document.MaxBytes)))
	content := "kind: ConfigMap\ndata:\n"
	for i := range 5 {
		content += fmt.Sprintf("  t%d: %s\n", i, bomb)
	}
	_, err := source.ReadObjects(t.Context(), []string{"-"}, strings.NewReader(content))
	if !errors.Is(err, document.ErrTooLarge) || !strings.Contains(err.Error(), "stdin:7") {
		t.Errorf("got %v, want %v with the line", err, document.ErrTooLarge)
	}
}

// A bug was that a set among manifests was left out without a word.
func TestSetsAmongManifests(t *testing.T) {
	set := "apiVersion: machineconfiguration.openshift.io/v1\nkind: PinnedImageSet\nmetadata: {name: site}\n" +
		"spec: {pinnedImages: [{name: 'quay.io/a/b" + digest + "'}, {name: 'no name'}]}\n"
	l, err := source.ReadManifests(t.Context(), list(t, "x.yaml", set+"---\n"+inObject("image: quay.io/a/sure:1")), "")
	if err != nil || len(l.Possible) != 1 {
		t.Fatalf("got %+v, %v, want one possible image", l.Possible, err)
	}
	const want = "1 image:\n  PinnedImageSet/site  spec.pinnedImages  quay.io/a/b" + digest
	if text := source.DescribePossible(l.Possible); text != want {
		t.Errorf("got %s, want %s", text, want)
	}
}
