package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/crio"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// mirroredRelease makes a folder with an archive of oc-mirror (a release and an application), an appliance
// file, and the manifest of the application. The registry is stopped.
func mirroredRelease(t *testing.T) (dir string, release sample.Release, app string) {
	t.Helper()
	registry, pins := fixtures.Samples(t)
	release, err := registry.PushRelease(t.Context(), "4.99.1", 6)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	m := sample.Mirror{Dir: t.TempDir()}
	mirrored := map[string]string{
		pins.Mixed: "site/app:1.2", pins.Pause: "site/pause:3", release.Pin: "openshift/release-images:4.99.1-x86_64",
	}
	for name, pin := range release.Components {
		mirrored[pin] = "openshift/release:4.99.1-x86_64-" + name
	}
	for pin, stored := range mirrored {
		if err := m.Add(t.Context(), pin, stored); err != nil {
			t.Fatal(err)
		}
	}
	app = "quay.example.com/site/app@" + pins.Mixed[strings.LastIndex(pins.Mixed, "sha256:"):]
	const held = "working-dir/hold-release/"
	for path, content := range map[string]string{
		filepath.Join(m.Dir, held+"ocp-release/4.99.1-x86_64/release-manifests/image-references"): "{}",
		filepath.Join(m.Dir, held+"cincinnati-graph-data/amd64-stable-4.99.json"): fmt.Sprintf(
			`{"nodes":[{"version":"4.99.1","payload":%q}]}`, release.Pin),
		filepath.Join(m.Dir, "isc_2026-11-21T02:04:52Z"): string(sample.ImageSet("quay.example.com/site/app:1.2",
			"quay.example.com/site/pause:3")) +
			"  platform: {channels: [{name: stable-4.99, minVersion: 4.99.1, maxVersion: 4.99.1}]}\n",
		filepath.Join(dir, "pod.yaml"): "kind: Pod\nspec:\n  containers:\n" +
			"  - image: quay.example.com/site/app:1.2\n  - image: " + app + "\n",
		filepath.Join(dir, "pause.bu"): "variant: fcos\nversion: 1.5.0\nstorage:\n  files:\n" +
			"  - path: /etc/crio/crio.conf.d/10-pause\n    contents:\n      inline: |\n        [crio.image]\n" +
			"        pause_image = \"quay.example.com/site/pause:3\"\n",
		filepath.Join(dir, "ship.yaml"): "apiVersion: pinbox/v1alpha1\nkind: Appliance\nmetadata: {name: ship}\nspec:\n" +
			"  sources:\n  - ocMirror: {paths: [mirror_000001.tar]}\n" +
			"  ignition: {butane: [pause.bu]}\n  node:\n    store: {path: " + filepath.Join(dir, "out",
			layout.StoreFile) + "}\n    binary: " + nodeProgram + "\n",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	fixtures.Run(t, "tar", "--format=ustar", "-C", m.Dir, "-cf", filepath.Join(dir, "mirror_000001.tar"), "docker",
		"working-dir", "isc_2026-11-21T02:04:52Z")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	return dir, release, app
}

// CRI-O lists the images of an archive of oc-mirror under their original names, pinned. No registry is
// needed, neither by the build nor by the node.
func TestApplianceOfOCMirror(t *testing.T) {
	dir, release, app := mirroredRelease(t)
	config, out := filepath.Join(dir, "ship.yaml"), filepath.Join(dir, "out")
	for _, step := range []struct {
		args   []string
		output string
	}{
		{[]string{"plan", "-c", config}, "7 images of 3 sets for linux/amd64"}, // cli once, without rhel-coreos
		{[]string{"lock", "-c", config}, "ship.lock.json"},
		{[]string{"build", "-c", config, "--locked", "-o", out}, "built ship for linux/amd64"},
		{[]string{"verify", out}, "is intact"},
		{[]string{"lint", "--lock", out, filepath.Join(dir, "pod.yaml")}, "0 findings in 2 uses of images"},
	} {
		code, stdout, stderr := pinbox(t.Context(), step.args...)
		if code != fault.OK || !strings.Contains(stdout+stderr, step.output) {
			t.Fatalf("%s: got exit code %d, want %d and %q\n%s%s",
				step.args[0], code, fault.OK, step.output, stdout, stderr)
		}
	}
	n := crio.New(t, filepath.Join(out, artifact.IgnitionFile))
	n.MountUnit("var-lib-pinbox-stores-0.mount")
	n.Start()
	list, err := n.Images().ListImages(t.Context(), &criapi.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, img := range list.Images {
		if !img.Pinned {
			t.Errorf("got %v not pinned, want it pinned", img.RepoDigests)
		}
		got = append(got, img.RepoDigests...)
	}
	for _, want := range []string{app, release.Pin, release.Components["cli"], release.Components["pod"]} {
		if !slices.Contains(got, want) {
			t.Errorf("got no %s in CRI-O, want it:\n%s", want, cmp.Diff("", strings.Join(got, "\n")))
		}
	}
	id, _ := n.RunContainer("quay.example.com/site/app:1.2")
	if code := n.State(id, criapi.ContainerState_CONTAINER_EXITED); code != 0 {
		t.Errorf("got exit code %d of the container, want 0", code)
	}
}

// An image that pinbox cannot name is an error with a hint, unless the user excludes it. Bugs were to leave
// out the image, to build it under another name, and to give hints that did not help.
func TestOCMirrorWithMissingNames(t *testing.T) {
	for name, c := range missingNames(t) {
		t.Run(name, func(t *testing.T) {
			code, stdout, stderr := pinbox(t.Context(), append([]string{"plan"}, c.args...)...)
			missing := func(text string) bool { return !strings.Contains(stdout+stderr, text) }
			if code != c.code || slices.ContainsFunc(c.output, missing) {
				t.Errorf("got exit code %d, want %d and %q\n%s%s", code, c.code, c.output, stdout, stderr)
			}
		})
	}
}

// newestRun is the configuration in an archive of oc-mirror.
const newestRun = "isc_2026-11-21T02:04:52Z"

// mirrored makes the folder of such an archive, with pins by their tags in it, and the configuration.
func mirrored(t *testing.T, pins map[string]string, config []byte) string {
	t.Helper()
	m := sample.Mirror{Dir: t.TempDir()}
	err := m.Write(newestRun, config)
	for stored, pin := range pins {
		err = errors.Join(err, m.Add(t.Context(), pin, stored))
	}
	if err != nil {
		t.Fatal(err)
	}
	return m.Dir
}

// sparseList makes the folder of an archive with an index, from which `platforms` has dropped linux/arm64.
func sparseList(t *testing.T, pins sample.Pins) string {
	t.Helper()
	list := mirrored(t, map[string]string{"site/list:1": pins.Index},
		append(sample.ImageSet("quay.example.com/site/list:1"), "    platforms: [{os: linux, architecture: amd64}]\n"...))
	var index v1.IndexManifest
	if err := json.Unmarshal(mustRead(t,
		filepath.Join(list, sample.Blob(pins.Index[strings.LastIndex(pins.Index, "sha256:"):]))), &index); err != nil {
		t.Fatal(err)
	}
	for _, instance := range index.Manifests {
		if instance.Platform.Architecture == "arm64" {
			fixtures.Run(t, "rm", filepath.Join(list, sample.Blob(instance.Digest.String())))
		}
	}
	return list
}

// missingName is a command with its exit code and texts of its output.
type missingName struct {
	args   []string
	code   int
	output []string
}

// missingNames returns archives with images that pinbox cannot name.
func missingNames(t *testing.T) map[string]missingName {
	t.Helper()
	registry, pins := fixtures.Samples(t)
	images := sample.ImageSet
	helm := append(images("quay.example.com/site/app:1"), "  helm: {local: [{name: site, path: site.tgz}]}\n"...)
	charts := mirrored(t, map[string]string{"site/app:1": pins.Mixed, "chart/one:1": pins.Pause,
		"chart/two:2": pins.Other}, helm)
	named := write(t, "mapping.txt",
		[]byte("docker://quay.example.com/chart/one:1=docker://localhost:55000/chart/one:1\n"))
	workspace := mirrored(t, nil, helm)
	collided := mirrored(t, map[string]string{"site/app:1": pins.Mixed},
		images("quay.example.com/site/app:1", "other.example.com/site/app:1"))
	cases := map[string]missingName{
		"charts": {
			[]string{"--oc-mirror", charts}, fault.Input, []string{
				"chart/one:1, chart/two:2", "mapping.txt", "--oc-mirror-exclude",
			},
		},
		"charts, one named": {
			[]string{"--oc-mirror", charts, "--oc-mirror", named}, fault.Input, []string{": chart/two:2"},
		},
		"charts, one named, one excluded": {
			[]string{"--oc-mirror", charts, "--oc-mirror", named, "--oc-mirror-exclude", "chart/tw?"}, fault.OK,
			[]string{"2 images"},
		},
		"two hosts": {
			[]string{"--oc-mirror", collided}, fault.Input, []string{
				"quay.example.com/site/app:1 and other.example.com/site/app:1 as site/app:1", "targetRepo",
			},
		},
		"one of two hosts": {
			[]string{"--oc-mirror", collided, "--image-set-config", write(t, "isc.yaml", images("quay.example.com/site/app:1"))},
			fault.Input, []string{"quay.example.com/site/app:1 and other.example.com/site/app:1 as site/app:1", "targetTag"},
		},
		"an instance that was dropped": {
			[]string{"--oc-mirror", sparseList(t, pins), "--platform", "linux/arm64"}, fault.Input,
			[]string{"mirror.additionalImages[0].platforms of " + newestRun + " has linux/amd64", "--platform"},
		},
		// A bug was a hint about tags, although there are none.
		"charts of mirror to mirror": {
			[]string{"--oc-mirror", workspace}, fault.Input, []string{
				"mirror.helm of " + newestRun + " requests images, and neither mapping.txt", "--dry-run", "as mirror.helm",
			},
		},
	}
	maps.Copy(cases, imagesToExclude(t, registry, pins))
	return cases
}

// imagesToExclude returns commands for an archive with images that CRI-O cannot run.
func imagesToExclude(t *testing.T, registry *sample.Registry, pins sample.Pins) map[string]missingName {
	t.Helper()
	good := layer(t, sample.File("a", "x"))
	artifact := push(t, registry, mutate.ConfigMediaType(image(t, "amd64", good), "application/vnd.example.model"))
	arm := push(t, registry, image(t, "arm64", good))
	images := sample.ImageSet
	others := mirrored(t, map[string]string{"site/app:1": pins.Mixed, "site/model:1": artifact, "site/arm:1": arm},
		images("quay.example.com/site/app:1", "quay.example.com/site/model:1", "quay.example.com/site/arm:1"))
	return map[string]missingName{
		"another host": {
			[]string{"--oc-mirror", others, "--image-set-config", write(t, "isc.yaml", images("other.example.com/site/app:1"))},
			fault.Input, []string{"other.example.com/site/app:1, which", "site/app:1 is quay.example.com/site/app:1"},
		},
		"an artifact and another platform": {
			[]string{"--oc-mirror", others}, fault.Input, []string{"site/arm@", "ocMirror.exclude"},
		},
		"an artifact, excluded": {
			[]string{"--oc-mirror", others, "--oc-mirror-exclude", "quay.example.com/site/model:*"}, fault.Input,
			[]string{"site/arm@", "--oc-mirror-exclude"},
		},
		"both excluded": {
			[]string{"--oc-mirror", others, "--oc-mirror-exclude", "quay.example.com/site/model", "--oc-mirror-exclude",
				"quay.example.com/site/arm@" + arm[strings.LastIndex(arm, "sha256:"):]}, fault.OK, []string{"1 image "},
		},
		"a pattern that matches nothing": {
			[]string{"--oc-mirror", others, "--oc-mirror-exclude", "quay.example.com/model"}, fault.Input,
			[]string{`exclude pattern "quay.example.com/model"`},
		},
		"not a pattern": {
			[]string{"--oc-mirror", others, "--oc-mirror-exclude", "["}, fault.Input, []string{`exclude pattern "["`},
		},
	}
}

// A bug was to read the whole file before its size was checked.
func TestImageSetWithoutAnEnd(t *testing.T) {
	file := write(t, "isc.yaml", nil)
	if err := os.Truncate(file, 1<<40); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := pinbox(t.Context(), "plan", "--image-set-config", file)
	if want := file + ": not an ImageSetConfiguration"; code != fault.Input || !strings.Contains(stderr, want) ||
		!strings.Contains(stderr, "too large") {
		t.Errorf("got exit code %d, want %d and %q, too large\n%s", code, fault.Input, want, stderr)
	}
}
