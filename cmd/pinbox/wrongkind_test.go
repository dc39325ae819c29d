package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/fault"
)

// wrongKind is an input for another flag, or for none.
type wrongKind struct {
	args   []string
	output string
}

// The error for a file of another kind names that kind, and does not call the file damaged.
func TestFilesOfOtherKinds(t *testing.T) {
	dir := t.TempDir()
	for _, cases := range []map[string]wrongKind{documentsOfOtherKinds(t, dir), archivesOfOtherKinds(t, dir)} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				code, _, stderr := pinbox(t.Context(), append([]string{"plan"}, c.args...)...)
				if code != fault.Input || !strings.Contains(stderr, c.output) || !strings.Contains(stderr, "hint: ") ||
					strings.Contains(stderr, "damaged") {
					t.Errorf("got exit code %d, want 3, %q and a hint\n%s", code, c.output, stderr)
				}
			})
		}
	}
	t.Run("an input without a flag", func(t *testing.T) {
		code, _, stderr := pinbox(t.Context(), "plan", "--set", "set.yaml", "isc.yaml")
		if want := "with a flag before each"; code != fault.Usage || !strings.Contains(stderr, want) {
			t.Errorf("got exit code %d, want 2 and %q\n%s", code, want, stderr)
		}
	})
}

// fileIn writes a file and returns its path.
func fileIn(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func documentsOfOtherKinds(t *testing.T, dir string) map[string]wrongKind {
	t.Helper()
	file := func(name, content string) string { return fileIn(t, dir, name, content) }
	set := file("set.yaml", string(sample.Set("worker", "quay.io/a/b@"+someDigest)))
	isc := file("isc.yaml", string(sample.ImageSet("quay.io/a/b:1")))
	hauler := file("hauler.yaml", "apiVersion: content.hauler.cattle.io/v1\nkind: Images\n"+
		"spec: {images: [{name: 'quay.io/a/b'}]}\n")
	return map[string]wrongKind{
		"a set as an appliance":           {[]string{"-c", set}, "give it with --set"},
		"an image set as an appliance":    {[]string{"-c", isc}, "give it with --image-set-config"},
		"Hauler's images as an appliance": {[]string{"-c", hauler}, "give it with --image-list"},
		"Hauler's images with a key": {
			[]string{"--image-list", file("key.yaml", strings.Replace(string(mustRead(t, hauler)), "'}]", "', key: a}]", 1))},
			"--policy",
		},
		"Hauler's charts": {
			[]string{"--image-list", file("charts.yaml", "apiVersion: content.hauler.cattle.io/v1\nkind: Charts\n")},
			"Charts of Hauler",
		},
		"a release's description": {
			[]string{"--set", file("info.json", `{"image": "quay.io/o/release:1", "references": {"kind": "ImageStream"}}`)},
			"give --release quay.io/o/release:1",
		},
		"an image set as a list": {[]string{"--image-list", isc}, "give it with --image-set-config"},
		"a set as a list":        {[]string{"--image-list", set}, "it is PinnedImageSet"},
		"a set as an image set":  {[]string{"--image-set-config", set}, "it is PinnedImageSet of"},
		"an image set of version 1": {
			[]string{"--image-set-config", file("v1.yaml", strings.Replace(string(sample.ImageSet("quay.io/a/b:1")), "v2alpha1",
				"v1alpha2", 1))}, "v2 has mirror.openshift.io/v2alpha1",
		},
		"an image set that asks nothing": {
			[]string{"--image-set-config", file("none.yaml",
				"apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror: {}\n")}, "requests no image",
		},
		"a manifest that was not rendered": {
			[]string{"--manifests", file("pod.yaml", "spec:\n  containers:\n  - image: {{ .Values.image }}\n")}, "pod.yaml:3",
		},
		"credentials without any": {
			[]string{"--image", "quay.io/a/b:1", "--authfile", file("auth.json", `{"quay.io":{"auth":"bWU6c2VjcmV0"}}`)},
			"has no auths",
		},
	}
}

func archivesOfOtherKinds(t *testing.T, dir string) map[string]wrongKind {
	t.Helper()
	text := fileIn(t, dir, "list.txt", "quay.io/a/b:1\n")
	tarOf := func(name, member string) string {
		fileIn(t, dir, member, "{}")
		path := filepath.Join(dir, name)
		fixtures.Run(t, "tar", "-C", dir, "-cf", path, member)
		return path
	}
	if err := os.MkdirAll(filepath.Join(dir, "publish"), 0o755); err != nil {
		t.Fatal(err)
	}
	return map[string]wrongKind{
		"a tar file as a list":       {[]string{"--image-list", tarOf("x.tar", "x")}, "it is not a text"},
		"a list as an archive":       {[]string{"--archive", text}, "it is not a tar file"},
		"a folder as an archive":     {[]string{"--archive", dir}, "is it an OCI layout?"},
		"an archive as a layout":     {[]string{"--oci", tarOf("y.tar", "y")}, "is it an archive?"},
		"a folder as a layout":       {[]string{"--oci", dir}, "it has no index.json"},
		"a layout by skopeo's name":  {[]string{"--oci", "oci:/missing"}, "leave out the oci:"},
		"a list as one of oc-mirror": {[]string{"--oc-mirror", text}, "it is not a tar file"},
		"an archive of images": {
			[]string{"--oc-mirror", tarOf("docker.tar", "manifest.json")}, "an archive of images",
		},
		"an archive of oc-mirror v1": {
			[]string{"--oc-mirror", tarOf("mirror_seq1_000000.tar", "publish/.metadata.json")}, "oc-mirror v1",
		},
		"an archive of oc-mirror": {
			[]string{"--archive", tarOf("mirror.tar", "isc_2026")}, "archives of oc-mirror are another input",
		},
		"a packed store": {
			[]string{"--containers-storage", "[overlay@" + text + "]quay.io/a/b:1"}, "mount -o loop,ro",
		},
		"a folder as a store": {
			[]string{"--containers-storage", "[overlay@" + dir + "+/run]quay.io/a/b:1"}, "no overlay-images",
		},
	}
}

// Messages about a YAML file use YAML's types, not Go's.
func TestMessagesAboutYAML(t *testing.T) {
	for want, content := range map[string]string{
		":3: field aditionalImages not found\n": "apiVersion: mirror.openshift.io/v2alpha1\n" +
			"kind: ImageSetConfiguration\nmirror: {aditionalImages: []}\n",
		":3: got a text, want a mapping": "apiVersion: mirror.openshift.io/v2alpha1\n" +
			"kind: ImageSetConfiguration\nmirror: x\n",
		":3: got a list, want a mapping\nhint": "apiVersion: mirror.openshift.io/v2alpha1\n" +
			"kind: ImageSetConfiguration\nmirror: [x]\n",
	} {
		t.Run(want, func(t *testing.T) {
			file := write(t, "bad.yaml", []byte(content))
			if _, _, stderr := pinbox(t.Context(), "plan", "--image-set-config", file); !strings.Contains(stderr, want) {
				t.Errorf("got\n%s\nwant %q", stderr, want)
			}
		})
	}
}

// A lock replaces an older lock, but no other file.
func TestLockReplacesOnlyLocks(t *testing.T) {
	pins := samples(t)
	mine := write(t, "mine.txt", []byte("mine"))
	if code, _, stderr := pinbox(t.Context(), "lock", "--image", pins.Pause, "--insecure-registry=127.0.0.1", "-o",
		mine); code != fault.Usage || !strings.Contains(stderr, mine) {
		t.Errorf("got exit code %d, want %d and %q\n%s", code, fault.Usage, mine, stderr)
	}
	if content := mustRead(t, mine); string(content) != "mine" {
		t.Errorf("got the file changed to %q, want it unchanged", content)
	}
	lock := filepath.Join(t.TempDir(), "x.lock.json")
	for range 2 {
		if code, _, stderr := pinbox(t.Context(), "lock", "--image", pins.Pause, "--insecure-registry=127.0.0.1", "-o",
			lock); code != fault.OK {
			t.Errorf("got exit code %d, want %d\n%s", code, fault.OK, stderr)
		}
	}
}
