package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// A manifest on its way to a node: without a lock, with one, and mended.
func TestLint(t *testing.T) {
	const app, db = "quay.io/site/app@" + someDigest, "quay.io/site/db@" + someDigest
	lock := write(t, "site.lock.json",
		[]byte(`{"version":1,"platform":"linux/amd64","sets":null,"images":[{"pin":"`+app+
			`","tags":["quay.io/site/app:1"],"manifest":"`+someDigest+`","config":"`+someDigest+
			`","from":null,"layers":null}]}`))
	pod := write(t, "pod.yaml", []byte("kind: Pod\nspec:\n  containers:\n  - image: quay.io/site/app:1\n"+
		"    imagePullPolicy: Always\n  - image: "+db+"\n"))
	mended := write(t, "mended.yaml",
		[]byte("kind: Pod\nspec:\n  containers:\n  - image: quay.io/site/app:1\n  - image: "+app+"\n"))
	const always = ":5: imagePullPolicy Always contacts the registry at every start, even if the node " +
		"has the image; without one: Failed to pull image \"quay.io/site/app:1\", and Error: ImagePullBackOff: write " +
		"imagePullPolicy: IfNotPresent\n"
	for name, c := range map[string]struct {
		args   []string
		code   int
		output string
	}{
		"no lock": {[]string{pod}, fault.Input, pod + ":4: quay.io/site/app:1 is a tag, which a node has only if its " +
			"store was made with it: name it by digest, or name the lock that has the tag with --lock\n" + pod + always +
			"not checked, without --lock: whether the node has the images\n2 findings in 2 uses of images and 0 sets\n"},
		"a lock": {
			[]string{"--lock", lock, pod}, fault.Input, pod + always + pod + ":6: the lock has no " + db +
				": the store has it as " + app + ": write that name\n2 findings in 2 uses of images and 0 sets\n",
		},
		"a cluster that does not exist": {[]string{"--openshift", "4.20.1", mended}, fault.Usage, ""},
		"mended":                        {[]string{"--lock", lock, mended}, fault.OK, "0 findings in 2 uses of images and 0 sets\n"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := pinbox(t.Context(), append([]string{"lint"}, c.args...)...); code != c.code ||
				stdout != c.output || (stderr != "") != (c.code == fault.Usage) {
				t.Errorf("got exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
		})
	}
	var result struct {
		Findings          []lint.Finding
		Count, Uses, Sets int
		Lock              string
	}
	for path, want := range map[string]int{pod: 2, mended: 0} {
		_, stdout, stderr := pinbox(t.Context(), "lint", "--output", "json", "--lock", lock, path)
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || stderr != "" || len(result.Findings) != want ||
			result.Count != want || result.Uses != 2 || result.Lock != lock {
			t.Errorf("got %v, want JSON\n%s%s", err, stdout, stderr)
		}
		if !strings.Contains(stdout, `"findings": [`) {
			t.Errorf("got no list of findings, want an empty one:\n%s", stdout)
		}
	}
}

// lint reports a name that may be an image unless the lock has it. A bug was to report it in no finding.
func TestLintOfPossibleImages(t *testing.T) {
	const image = "quay.io/site/app@" + someDigest
	lock := write(t, "site.lock.json",
		[]byte(`{"version":1,"platform":"linux/amd64","sets":null,"images":[{"pin":"`+image+
			`","manifest":"`+someDigest+`","config":"`+someDigest+`","from":null,"layers":null}]}`))
	fleet := write(t, "fleet.yaml",
		[]byte("apiVersion: example.com/v1\nkind: Fleet\nspec:\n  site: quay.io/site/other:1\n  worker: "+image+"\n"))
	const other, app = ":4: quay.io/site/other:1 in spec.site of Fleet.example.com may be an image",
		":5: " + image + " in spec.worker of"
	for _, c := range []struct {
		flags  []string
		output []string
	}{
		{nil, []string{other, app}}, {[]string{"--lock", lock}, []string{other}},
	} {
		args := append([]string{"lint", fleet}, c.flags...)
		code, stdout, stderr := pinbox(t.Context(), args...)
		if code != fault.Input || stderr != "" || strings.Count(stdout, "may be an image") != len(c.output) {
			t.Errorf("%q: got exit code %d, want %d\n%s%s", c.flags, code, fault.Input, stdout, stderr)
		}
		for _, output := range c.output {
			if !strings.Contains(stdout, fleet+output) {
				t.Errorf("%q: got\n%s\nwant %q", c.flags, stdout, output)
			}
		}
		var result struct{ Findings []lint.Finding }
		_, stdout, stderr = pinbox(t.Context(), append(args, "--output", "json")...)
		if err := json.Unmarshal([]byte(stdout), &result); err != nil || stderr != "" || len(result.Findings) != len(c.output) {
			t.Errorf("%q: got %v, want JSON\n%s%s", c.flags, err, stdout, stderr)
		}
	}
}

// Of what a cluster has printed, a table has what the lock lacks, by namespace and owner: also of a folder such as a
// must-gather.
func TestLintOfACluster(t *testing.T) {
	lock := write(t, "site.lock.json", []byte(`{"version":1,"platform":"linux/amd64","sets":null,"images":null}`))
	pod := write(t, "pods.yaml", []byte("apiVersion: v1\nkind: PodList\nitems:\n- metadata: {uid: a, namespace: web, name: shop-0, "+
		"ownerReferences: [{kind: StatefulSet, name: shop}]}\n  kind: Pod\n  spec: {containers: [{image: quay.io/site/shop:1}]}\n"))
	code, stdout, stderr := pinbox(t.Context(), "lint", "--lock", lock, filepath.Dir(pod))
	const want = "not in the store, by namespace and owner:\n  web  StatefulSet/shop  quay.io/site/shop:1\n"
	if code != fault.Input || stderr != "" || !strings.Contains(stdout, want) {
		t.Errorf("got exit code %d and\n%s%s\nwant %d with %q", code, stdout, stderr, fault.Input, want)
	}
	var result struct{ Missing []lint.Missing }
	_, stdout, _ = pinbox(t.Context(), "lint", "--lock", lock, pod, "--output", "json")
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || len(result.Missing) != 1 || result.Missing[0].Namespace != "web" {
		t.Errorf("got %v, %+v, want one owner", err, result)
	}
}

// What manifests name and a build leaves out is told, until another input has it.
func TestManifestsOfUnknownKinds(t *testing.T) {
	r := serve(t, nil)
	img := image(t, "amd64", layer(t, sample.File("a", "x")))
	pin := push(t, r, img)
	tag, err := r.Tag(t.Context(), "test/tagged", "1", img)
	if err != nil {
		t.Fatal(err)
	}
	other, err := r.Tag(t.Context(), "test/other", "1", img)
	if err != nil {
		t.Fatal(err)
	}
	manifests := write(t, "m.yaml", fmt.Appendf(nil, "apiVersion: example.com/v1\nkind: Fleet\n"+
		"spec: {site: '%s', others: ['%s']}\n---\nkind: Pod\nspec: {containers: [{image: '%s'}]}\n", pin, tag, other))
	for _, c := range []struct {
		args   []string
		output string
	}{
		{nil, "warning: named but not taken: 2 images:\n  Fleet.example.com  spec.site       " + pin + "\n  Fleet.example.com  spec.others[0]  " + tag},
		{[]string{"--image", tag}, "warning: named but not taken: 1 image:\n  Fleet.example.com  spec.site  " + pin},
		{[]string{"--possible-images", "take"}, ""},
		{[]string{"--possible-images", "refuse", "--image", tag, "--image", pin}, ""},
		{[]string{"--image", tag, "--set", write(t, "set.yaml", sample.Set("worker", pin))}, ""},
	} {
		code, stdout, stderr := pinbox(t.Context(), append([]string{"plan", "--insecure-registry=127.0.0.1", "--manifests", manifests},
			c.args...)...)
		if code != fault.OK || !strings.Contains(stderr, c.output) ||
			c.output == "" && strings.Contains(stderr, "not taken") {
			t.Errorf("%q: got exit code %d, want %d and %q\n%s%s", c.args, code, fault.OK, c.output, stdout, stderr)
		}
	}
}

// The cure that was told, --image, did not help where no manifest had a pod.
func TestManifestsOfUnknownKindsAlone(t *testing.T) {
	r, img := serve(t, nil), image(t, "amd64", layer(t, sample.File("a", "x")))
	tag, err := r.Tag(t.Context(), "test/tagged", "1", img)
	if err != nil {
		t.Fatal(err)
	}
	manifests := write(t, "m.yaml", fmt.Appendf(nil, "apiVersion: example.com/v1\nkind: Fleet\nspec: {site: '%s'}\n",
		tag))
	args := []string{"plan", "--insecure-registry=127.0.0.1", "--manifests", manifests}
	code, _, stderr := pinbox(t.Context(), args...)
	if want := "named but not taken: 1 image:\n  Fleet.example.com  spec.site  " + tag; code != fault.Input || !strings.Contains(stderr, want) {
		t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Input, want, stderr)
	}
	set := write(t, "set.yaml", sample.Set("worker", push(t, r, img)))
	if code, _, stderr := pinbox(t.Context(), append(args, "--set", set)...); code != fault.OK ||
		!strings.Contains(stderr, "warning: named but not taken: 1 image:") {
		t.Errorf("with a set: got exit code %d, want %d and a warning\n%s", code, fault.OK, stderr)
	}
	if code, _, stderr := pinbox(t.Context(), append(args, "--image", tag)...); code != fault.OK ||
		strings.Contains(stderr, "left out") {
		t.Errorf("with --image: got exit code %d, want %d and no warning\n%s", code, fault.OK, stderr)
	}
}

// A chart is checked as helm renders it, with no file between.
func TestLintReadsStdin(t *testing.T) {
	f, err := os.Open(write(t, "rendered",
		[]byte("---\n# Source: chart/templates/pod.yaml\nspec: {containers: [{image: nginx}]}\n")))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stdin := os.Stdin
	t.Cleanup(func() { os.Stdin = stdin })
	os.Stdin = f
	if code, stdout, _ := pinbox(t.Context(), "lint", "-"); code != fault.Input ||
		!strings.Contains(stdout, "stdin:3: nginx does not name its registry") {
		t.Errorf("got exit code %d, want %d and %q\n%s",
			code, fault.Input, "stdin:3: nginx does not name its registry", stdout)
	}
}

func TestLintRefuses(t *testing.T) {
	bomb := "a0: &a0 x\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	pod := write(t, "pod.yaml", []byte("spec: {containers: [{image: nginx}]}"))
	for name, c := range map[string]struct {
		args   []string
		code   int
		output string
	}{
		"no path":      {nil, fault.Usage, "requires at least 1 arg"},
		"no such file": {[]string{pod + ".not"}, fault.Input, "pod.yaml.not"},
		"a template": {
			[]string{write(t, "chart.yaml", []byte("kind: Pod\n{{- if .Values.on }}\n"))}, fault.Input,
			"hint: render charts with `helm template`",
		},
		"a billion laughs": {
			[]string{write(t, "bomb.yaml", []byte(bomb))}, fault.Input,
			"hint: split the file, or replace its aliases with what they stand for",
		},
		"nothing to check": {
			[]string{write(t, "map.yaml", nil)}, fault.Input, "map.yaml: no container in it names an image",
		},
		"no lock":        {[]string{"--lock", pod, pod}, fault.Input, "and not a lock"},
		"another output": {[]string{"--output", "sarif", pod}, fault.Usage, "want text, json or yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			if code, stdout, stderr := pinbox(t.Context(), append([]string{"lint"}, c.args...)...); code != c.code ||
				stdout != "" || !strings.Contains(stderr, c.output) || !strings.Contains(stderr, "hint: ") {
				t.Errorf("got exit code %d, want %d\n%s%s", code, c.code, stdout, stderr)
			}
		})
	}
}

// What asks a registry in a cluster is listed, and is no finding. A set without a pool is one there.
func TestLintOpenShift(t *testing.T) {
	set := write(t, "set.yaml", sample.SetNamed("site", "quay.io/site/app@"+someDigest))
	for name, test := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no manifests": {[]string{"--openshift", "4.23"}, fault.OK, "update, os-streams: machine-config-controller inspects"},
		"a set":        {[]string{"--openshift", "4.23", set}, fault.Input, `set "site" has no label`},
		"elsewhere":    {[]string{set}, fault.OK, "0 findings in 0 uses of images and 1 set"},
		"as JSON":      {[]string{"--openshift", "5.0", "--output", "json"}, fault.OK, `"name": "os-streams"`},
	} {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := pinbox(t.Context(), append([]string{"lint"}, test.args...)...)
			if code != test.code || !strings.Contains(stdout, test.want) || stderr != "" {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", code, test.code, test.want, stdout, stderr)
			}
		})
	}
}
