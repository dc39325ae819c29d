package source_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// TestMain hides the registries.conf of this machine, whose aliases complete short names.
func TestMain(m *testing.M) {
	if err := os.Setenv("CONTAINERS_REGISTRIES_CONF", os.DevNull); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

const digest = "@sha256:513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e"

func list(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadList(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          []string
	}{
		"text": {"images.txt", "# comment\n\n  quay.io/a/b:1 # why\ndocker://quay.io/a/c" + digest + "\r\nquay.io/a/d\n",
			[]string{"quay.io/a/b:1", "quay.io/a/c" + digest, "quay.io/a/d:latest"}},
		"both tag and digest": {"images", "quay.io/a/b:1" + digest, []string{"quay.io/a/b:1" + digest}},
		"MicroShift": {"release-x86_64.json", `{"release": {"base": "4.18.0"}, "images": {"pod": "quay.io/o/pod` + digest +
			`", "cli": "quay.io/o/cli` + digest + `"}}`,
			[]string{"quay.io/o/pod" + digest, "quay.io/o/cli" + digest}},
		"MicroShift by another name": {"release", `{"images": {"pod": "quay.io/o/pod:1"}}`, []string{"quay.io/o/pod:1"}},
		"kubeadm": {"images.json", `{"apiVersion": "output.kubeadm.k8s.io/v1alpha3", "kind": "Images", "images": [` +
			`"registry.k8s.io/pause:3.10", "index.docker.io/library/nginx:1"]}`,
			[]string{"registry.k8s.io/pause:3.10", "docker.io/library/nginx:1"}},
		"kubeadm as YAML, in a file of any name": {"images.txt", "apiVersion: output.kubeadm.k8s.io/v1alpha3\nimages:\n" +
			"- registry.k8s.io/pause:3.10\nkind: Images\n", []string{"registry.k8s.io/pause:3.10"}},
		"crictl": {"images.json", `{"images": [{"id": "sha256:1", "repoTags": ["quay.io/a/b:1"], "repoDigests": [` +
			`"quay.io/a/b` + digest + `"], "size": "1", "uid": null, "pinned": false}, {"id": "sha256:2", "repoTags": [], "repoDigests": [` +
			`"quay.io/a/c` + digest + `"]}]}`, []string{"quay.io/a/b:1", "quay.io/a/b" + digest, "quay.io/a/c" + digest}},
		"podman": {"images", `[{"Id": "1", "Names": ["quay.io/a/b:1"], "RepoTags": ["quay.io/a/b:1"], "RepoDigests": []}]`,
			[]string{"quay.io/a/b:1"}},
		"podman, by names alone": {"images", `[{"Id": "1", "RepoTags": null, "RepoDigests": [], "Names": ["quay.io/a/b:1"]}]`,
			[]string{"quay.io/a/b:1"}},
		"an array": {"images", "[\n\"quay.io/a/b:1\", \"quay.io/a/c:1\"]",
			[]string{"quay.io/a/b:1", "quay.io/a/c:1"}},
		"a list of YAML": {"images.txt", "# all\n---\n- quay.io/a/b:1\n- \"quay.io/a/c:1\"\n",
			[]string{"quay.io/a/b:1", "quay.io/a/c:1"}},
		"a list under a key": {"images.txt", "images:\n  - quay.io/a/b:1\n", []string{"quay.io/a/b:1"}},
		"Hauler": {"hauler.yaml", "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata: {name: x}\nspec:\n" +
			"  images:\n  - name: docker.io/library/busybox:1\n    platform: linux/amd64\n---\nkind: Images\n" +
			"spec: {images: [{name: quay.io/a/b:2}]}\n",
			[]string{"docker.io/library/busybox:1", "quay.io/a/b:2"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := source.ReadList(t.Context(), list(t, c.file, c.content), source.Options{Platform: "linux/amd64"})
			if err != nil || len(l.Warnings) > 0 {
				t.Fatalf("got %v, warnings %q; want neither", err, l.Warnings)
			}
			var got []string
			for _, n := range l.Names {
				got = append(got, n.String())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Nodes have images without a name, of which a newer one has the tag. A bug was to refuse the list as something else.
func TestListsWithImagesWithoutNames(t *testing.T) {
	l, err := source.ReadList(t.Context(), list(t, "x.json", `{"images": [{"repoTags": ["quay.io/a/b:1"]}, {"id": "sha256:1",`+
		`"repoTags": [], "repoDigests": []}, {"repoTags": ["<none>:<none>"], "repoDigests": ["<none>@<none>"]}]}`), source.Options{})
	if err != nil || len(l.Names) != 1 || l.Names[0].String() != "quay.io/a/b:1" {
		t.Fatalf("got %v, %v, want quay.io/a/b:1", l.Names, err)
	}
	if len(l.Warnings) != 1 || !strings.HasSuffix(l.Warnings[0], "x.json:1: images without a name are left out: 2") {
		t.Errorf("got the warnings %q, want one of 2 images", l.Warnings)
	}
}

func TestInvalidLists(t *testing.T) {
	for name, c := range map[string]struct {
		file, content string
		want          error
		text          string // of the error
	}{
		"a typo on line 17": {
			"images.txt", strings.Repeat("quay.io/a/b:1\n", 16) + "quay.io/a/B:1\n", pinset.ErrBadName,
			"images.txt:17: image \"quay.io/a/B:1\"",
		},
		"a short name": {
			"images.txt", "\nbusybox:1\n", pinset.ErrShortName, "images.txt:2: image \"busybox:1\": not the full name: " +
				"it does not name its registry; write docker.io/library/busybox:1",
		},
		"no library/": {
			"images.txt", "docker.io/nginx\n", pinset.ErrShortName,
			"image \"docker.io/nginx\": not the full name: it lacks the path library/; write docker.io/library/nginx",
		},
		"comments only":              {"images.txt", "# nothing\n", source.ErrEmptyList, "images.txt"},
		"nothing":                    {"images.txt", "", source.ErrEmptyList, "images.txt"},
		"another kind":               {"x.yaml", "kind: Pod\nspec: {}\n", source.ErrList, "x.yaml:1"},
		"not YAML":                   {"x.yaml", "a: [", source.ErrList, "x.yaml"},
		"only images without a name": {"x.json", `{"images": [{"id": "sha256:1", "repoTags": [], "repoDigests": []}]}`, source.ErrList, "x.json:1"},
		"other entries":              {"x.yaml", "images:\n- name: quay.io/a/b\n  newTag: 2\n", source.ErrList, "x.yaml:1"},
		"empty YAML":                 {"x.yaml", "", source.ErrEmptyList, "x.yaml"},
		"a bad name inside": {
			"x.json", "{\n\"images\": {\n\"a\": \"quay.io/a/b:1\",\n\"b\": \"quay.io/a/ b\"}}", pinset.ErrBadName, "x.json:4",
		},
		"another digest": {
			"images.txt", "quay.io/a/b@sha512:" + strings.Repeat("a", 128), pinset.ErrNotPinned, "images.txt:1",
		},
		"a line without end": {"images.txt", strings.Repeat("x", 1<<20), source.ErrList, "images.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := source.ReadList(t.Context(), list(t, c.file, c.content), source.Options{Platform: "linux/amd64"})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
	// All errors of a list are reported at once.
	_, err := source.ReadList(t.Context(), list(t, "images.txt", "A\nquay.io/a/b\nB\n"), source.Options{Platform: "linux/amd64"})
	if err == nil || !strings.Contains(err.Error(), "images.txt:1:") || !strings.Contains(err.Error(), "images.txt:3:") {
		t.Errorf("got %v, want lines 1 and 3", err)
	}
	if _, err := source.ReadList(t.Context(), "/no/such", source.Options{Platform: "linux/amd64"}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want %v", err, os.ErrNotExist)
	}
}

// The error lists all short names of a list, and shows the flag that completes them; with it, one line says so.
func TestShortNamesOfLists(t *testing.T) {
	text := "rancher/longhorn:1.9\nquay.io/a/b:1\ndocker.io/nginx:1\n"
	for i := range 60 {
		text += fmt.Sprintf("rancher/mirrored-%d:1\n", i)
	}
	lists := source.ImageLists{list(t, "images.txt", text), list(t, "images.json", `{"images": {"pod": "pause:3"}}`)}
	images := source.Images{"nginx:1.27"}
	entries := []source.Entry{{Source: &lists}, {Source: &images}}
	_, err := source.Read(t.Context(), entries, source.Options{Appliance: "a"})
	if !errors.Is(err, pinset.ErrShortName) {
		t.Fatalf("got %v, want %v", err, pinset.ErrShortName)
	}
	for _, want := range []string{"images.txt:1:", "images.txt:3:", "images.txt:63:", "images.json:1:", "nginx:1.27"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q in it", err, want)
		}
	}
	if hint := fault.Of(err).Hint; !strings.Contains(hint, "--default-registry docker.io") || strings.Contains(err.Error(), ":2:") {
		t.Errorf("got %v with the hint %q, want the flag in it, and no full name", err, hint)
	}
	content, err := source.Read(t.Context(), entries, source.Options{Appliance: "a", DefaultRegistry: "docker.io"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"64 short names are completed by the default registry docker.io; the first is rancher/longhorn:1.9: " +
		"docker.io/rancher/longhorn:1.9"}
	if diff := cmp.Diff(want, content.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := content.Named[1].Names[0].String(); len(content.Named[0].Names) != 64 || got != "docker.io/library/nginx:1.27" {
		t.Errorf("got %d names and %s", len(content.Named[0].Names), got)
	}
	one := []source.Entry{{Source: &images}}
	content, err = source.Read(t.Context(), one, source.Options{Appliance: "a", DefaultRegistry: "quay.io", AnyArchitecture: []string{
		"site/app", "nginx:1.27", "quay.io/a:5000/b",
	}})
	if err == nil || !strings.Contains(err.Error(), `--any-architecture: image "quay.io/a:5000/b"`) {
		t.Errorf("got %v, want the bad name in it", err)
	}
}

// A bug was to read a list of any size into memory before it was parsed.
func TestListsThatAreTooLarge(t *testing.T) {
	for _, name := range []string{"images.txt", "images.yaml"} {
		t.Run(name, func(t *testing.T) {
			file := list(t, name, "quay.io/a/b:1\n")
			if err := os.Truncate(file, 64<<20+1); err != nil {
				t.Fatal(err)
			}
			if _, err := source.ReadList(t.Context(), file, source.Options{Platform: "linux/amd64"}); !errors.Is(err, document.ErrTooLarge) ||
				!errors.Is(err, source.ErrList) || !strings.Contains(err.Error(), file+": ") {
				t.Errorf("got %v, want %v with %q", err, document.ErrTooLarge, file+": ")
			}
		})
	}
}

// haulerImages is a document of Hauler with an annotation, and a field of its image.
func haulerImages(annotation, field string) string {
	return "apiVersion: content.hauler.cattle.io/v1\nkind: Images\nmetadata:\n  name: x\n  annotations:\n    a: b\n    " +
		annotation +
		"\nspec:\n  images:\n  - name: quay.io/a/b:1\n    " + field + "\n"
}

// Fields with the value that pinbox uses anyway, or that only configure Hauler, are accepted.
func TestFieldsOfHaulerWithoutEffect(t *testing.T) {
	for _, field := range []string{
		"", "platform: linux/amd64", "key: ''", "key:", "exclude-extras: true", "local: false", "use-tlog-verify: false",
		"insecure-skip-tls-verify: false",
	} {
		t.Run(field, func(t *testing.T) {
			annotation := ""
			if name, _, _ := strings.Cut(field, ":"); name != "" && name != "local" {
				annotation = "hauler.dev/" + field
			}
			for _, content := range []string{
				haulerImages("", field), haulerImages(annotation, ""), haulerImages("hauler.dev/store: x", ""),
				haulerImages("hauler.dev/retries: 3", ""),
			} {
				l, err := source.ReadList(t.Context(), list(t, "x.yaml", content), source.Options{Platform: "linux/amd64"})
				if err != nil || len(l.Names) != 1 || len(l.Warnings) > 0 {
					t.Errorf("got %q, %v, warnings %q; want one name\n%s", l.Names, err, l.Warnings, content)
				}
			}
		})
	}
}

// A bug was to ignore the fields by which Hauler verifies signatures or selects images: users assumed
// that the images were verified.
func TestFieldsOfHauler(t *testing.T) {
	for field, hint := range map[string]string{
		"key: cosign.pub":                           "--policy",
		"use-tlog-verify: true":                     "--policy",
		"certificate-identity: a":                   "--policy",
		"certificate-identity-regexp: a":            "--policy",
		"certificate-oidc-issuer: a":                "--policy",
		"certificate-oidc-issuer-regexp: a":         "--policy",
		"certificate-github-workflow-repository: a": "--policy",
		"platform: linux/arm64": "the appliance is for linux/amd64; change it with " +
			"spec.platform or --platform",
		"rewrite: site/b":                "--mirrors",
		"ca-file: ca.crt":                "--cert-dir",
		"insecure-skip-tls-verify: true": "--cert-dir",
		"key: {a: b}":                    "must be a string",
	} {
		t.Run(field, func(t *testing.T) {
			name, _, _ := strings.Cut(field, ":")
			for subject, content := range map[string]string{
				"x.yaml:11: " + name:           haulerImages("", field),
				"x.yaml:7: hauler.dev/" + name: haulerImages("hauler.dev/"+field, ""),
			} {
				_, err := source.ReadList(t.Context(), list(t, "x.yaml", content), source.Options{Platform: "linux/amd64"})
				want := subject + ": pinbox does not support this field of Hauler: "
				if !errors.Is(err, source.ErrHauler) || !strings.Contains(err.Error(), want) ||
					!strings.Contains(err.Error(), hint) {
					t.Errorf("got %v, want %q and %q in it", err, want, hint)
				}
			}
		})
	}
}

func TestInvalidFieldsOfHauler(t *testing.T) {
	for text, c := range map[string]struct {
		content string
		want    error
	}{
		"x.yaml:11: local: ":              {haulerImages("", "local: true"), source.ErrHauler},
		"x.yaml:7: hauler.dev/registry: ": {haulerImages("hauler.dev/registry: quay.io", ""), source.ErrHauler},
		"x.yaml:12: more: pinbox does not know this field of Hauler; known here: images": {
			haulerImages("", "") + "  more: []\n", source.ErrHaulerField,
		},
		"x.yaml:4: data: ": {
			"apiVersion: content.hauler.cattle.io/v1\nkind: Images\nspec: {images: [{name: quay.io/a/b:1}]}\ndata: {}\n",
			source.ErrHaulerField,
		},
		"x.yaml:11: sign-key: pinbox does not know this field of Hauler; known here: certificate-github": {
			haulerImages("", "sign-key: a"), source.ErrHaulerField,
		},
		// The known annotations are listed too.
		"retries, rewrite, store, use-tlog-verify": {haulerImages("hauler.dev/sign-key: a", ""), source.ErrHaulerField},
		"x.yaml:10: not a list of images: an entry of spec.images needs a name": {
			strings.Replace(haulerImages("", ""), "- name: quay.io/a/b:1", "- {}", 1), source.ErrList,
		},
	} {
		t.Run(text, func(t *testing.T) {
			_, err := source.ReadList(t.Context(), list(t, "x.yaml", c.content), source.Options{Platform: "linux/amd64"})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), text) {
				t.Errorf("got %v, want %v with %q", err, c.want, text)
			}
		})
	}
}

// The field of an image overrides the annotation, and all errors are reported at once.
func TestAnnotationsOfHauler(t *testing.T) {
	if _, err := source.ReadList(t.Context(), list(t, "x.yaml", haulerImages("hauler.dev/platform: linux/arm64",
		"platform: linux/amd64")), source.Options{Platform: "linux/amd64"}); err != nil {
		t.Errorf("got %v, want no error", err)
	}
	_, err := source.ReadList(t.Context(), list(t, "x.yaml", haulerImages("hauler.dev/key: a", "platform: linux/arm64")), source.Options{Platform: "linux/amd64"})
	if err == nil || !strings.Contains(err.Error(), "x.yaml:7: ") || !strings.Contains(err.Error(), "x.yaml:11: ") {
		t.Errorf("got %v, want lines 7 and 11", err)
	}
}

// A bug was to leave out the charts of Hauler without a warning. The error for a list that has only
// charts was "EOF".
func TestChartsOfHauler(t *testing.T) {
	const others = "apiVersion: content.hauler.cattle.io/v1\nkind: Charts\nspec: {charts: [{name: rancher, add-images: " +
		"true}]}\n---\napiVersion: content.hauler.cattle.io/v1\nkind: Files\n"
	_, err := source.ReadList(t.Context(), list(t, "x.yaml", others), source.Options{Platform: "linux/amd64"})
	for _, want := range []string{
		"x.yaml: lists no image", "x.yaml:1: Charts of Hauler", "--manifests", "x.yaml:5: Files of Hauler",
	} {
		if !errors.Is(err, source.ErrEmptyList) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %v with %q", err, source.ErrEmptyList, want)
		}
	}
	l, err := source.ReadList(t.Context(), list(t, "x.yaml", others+"---\n"+haulerImages("", "")), source.Options{Platform: "linux/amd64"})
	const warning = "x.yaml:1: Charts of Hauler are left out"
	if err != nil || len(l.Names) != 1 || len(l.Warnings) != 2 || !strings.Contains(l.Warnings[0], warning) {
		t.Errorf("got %+v, %v; want one name and 2 warnings, the first with %q", l, err, warning)
	}
}

// The output of `oc adm release info -o json` names images, but it is not a list, an object or a set.
func TestReleaseInfo(t *testing.T) {
	for _, images := range []string{"null", `{"cli": {"name": "quay.io/o/cli` + digest + `", "config": {}}}`} {
		file := list(t, "x.json",
			`{"image": "quay.io/o/release:4.18.3-x86_64", "digest": "`+digest[1:]+`", "contentDigest": "`+digest[1:]+`", "config": {}, "metadata": {"kind": "cincinnati-metadata-v0", "version": "4.18.3"},
"references": {"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "4.18.3"}, "spec": {"tags": [{"name": "cli", "from": {"kind": "DockerImage", "name": "quay.io/o/cli`+digest+`"}}]}}, "versions": {}, "images": `+images+`, "warnings": null}`)
		_, inList := source.ReadList(t.Context(), file, source.Options{Platform: "linux/amd64"})
		_, _, inSets := source.ReadSets(t.Context(), []string{file})
		_, inManifests := source.ReadManifests(t.Context(), file, "")
		const want = "x.json:1: it is the output of `oc adm release info -o json`: give --release " +
			"quay.io/o/release:4.18.3-x86_64"
		for _, err := range []error{inList, inSets, inManifests} {
			if !errors.Is(err, pinset.ErrReleaseInfo) || !strings.HasSuffix(err.Error(), want) {
				t.Errorf("got %v, want %v with %q at its end", err, pinset.ErrReleaseInfo, want)
			}
		}
	}
}
