package source_test

import (
	"crypto/fips140"
	"crypto/md5"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	godigest "github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/source"
)

// files are the files of a workspace or an archive, by name.
type files map[string]string

func (f files) Names() []string { return slices.Sorted(maps.Keys(f)) }

func (f files) ReadFile(name string) ([]byte, error) {
	content, ok := f[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(content), nil
}

// sum returns the digest that repeats a hexadecimal letter.
func sum(letter string) godigest.Digest {
	return godigest.Digest("sha256:" + strings.Repeat(letter, 64))
}

// kept returns the tags of the output, with the digests of a, b, … in their order.
func kept(names ...string) map[string]godigest.Digest {
	tags := map[string]godigest.Digest{}
	for i, n := range names {
		tags[n] = sum(string(rune('a' + i)))
	}
	return tags
}

const isc = "isc_2026-11-21T02:04:52Z"

func imageSet(mirror string) string {
	return "apiVersion: mirror.openshift.io/v2alpha1\nkind: ImageSetConfiguration\nmirror:\n" + mirror
}

func held(tag, version string) files {
	return files{
		"working-dir/hold-release/ocp-release/" + tag + "/release-manifests/image-references": fmt.Sprintf(
			`{"kind":"ImageStream","metadata":{"name":%q},"spec":{"tags":[{"name":"x","from":{"kind":"DockerImage","name":"quay.io/x@%s"}}]}}`, version, sum("f")),
	}
}

func together(all ...files) files {
	one := files{}
	for _, f := range all {
		maps.Copy(one, f)
	}
	return one
}

// releases returns the files and tags of several releases, and an update graph with their repository.
func releases(tags ...string) (files, map[string]godigest.Digest) {
	all, stored, nodes := files{}, map[string]godigest.Digest{}, []string{}
	for i, tag := range tags {
		maps.Copy(all, held(tag, tag))
		stored["openshift/release-images:"+tag] = sum(string(rune('a' + i)))
		nodes = append(nodes, fmt.Sprintf(`{"payload":"quay.io/ocp/ocp-release@%s"}`, sum(string(rune('a'+i)))))
	}
	all["working-dir/hold-release/cincinnati-graph-data/x.json"] = `{"nodes":[` + strings.Join(nodes, ",") + `]}`
	return all, stored
}

func itms(pairs ...string) string {
	text := "apiVersion: config.openshift.io/v1\nkind: ImageTagMirrorSet\nmetadata: {name: x}\nspec:\n  imageTagMirrors:\n"
	for i := 0; i < len(pairs); i += 2 {
		text += fmt.Sprintf("  - {source: %s, mirrors: [%s]}\n", pairs[i], pairs[i+1])
	}
	return text
}

const cluster = "working-dir/cluster-resources/itms-oc-mirror.yaml"

// letters returns the names of images, with the letters of their digests.
func letters(images []source.MirroredImage) string {
	var all []string
	for _, m := range images {
		_, hex, _ := strings.Cut(m.Stored.String(), ":")
		all = append(all, m.String()+"="+hex[:min(1, len(hex))])
	}
	return strings.Join(all, " ")
}

// runLog returns the log of a run of oc-mirror that copied the images.
func runLog(names ...string) string {
	text := fmt.Sprintf("2026/11/21 02:04:50 \x1b[1;94m [INFO] \x1b[0m  : 📌 images to copy %d \n", len(names))
	for _, n := range names {
		text += "2026/11/21 02:04:51 \x1b[1;94m [INFO] \x1b[0m  : Success copying " + n + " ➡️ cache\n"
	}
	return text
}

// failed returns the log of a run in which oc-mirror could not copy one of the images.
func failed(one string, names ...string) string {
	return strings.Replace(runLog(names...), "Success copying "+one, "Failed to copy %!s(v2alpha1.ImageType=9) "+one, 1)
}

// namesTest has an output of oc-mirror and its images.
type namesTest struct {
	files files
	tags  map[string]godigest.Digest
	want  string // names with the letters of their digests, or "error: " and the end of an error
}

// check reads the output and compares the images.
func (c namesTest) check(t *testing.T) {
	t.Helper()
	found, err := source.ReadOCMirror(t.Context(), c.files, c.tags, source.MirrorOptions{Platform: "linux/amd64"})
	if want, ok := strings.CutPrefix(c.want, "error: "); ok {
		if !errors.Is(err, source.ErrUnknownNames) && !errors.Is(err, source.ErrUnknownImages) &&
			!errors.Is(err, source.ErrNotMirrored) || !strings.HasSuffix(": "+err.Error(), ": "+want) {
			t.Errorf("got %v, want %q at its end", err, want)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c.want, letters(found.Images)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const (
	mapping = "working-dir/dry-run/mapping.txt"
	newest  = "working-dir/logs/oc-mirror-20261121_020450.log"
)

func TestNamesOfOCMirror(t *testing.T) {
	// An older configuration may request images that the newest run did not copy.
	deleted := "apiVersion: mirror.openshift.io/v2alpha1\nkind: DeleteImageSetConfiguration\n"
	if _, err := source.ParseImageSetConfig("x.yaml", []byte(deleted)); err == nil || !strings.Contains(err.Error(), "deletes") {
		t.Errorf("got %v, want an error that says what the object is for", err)
	}
	two := imageSet("  additionalImages: [{name: quay.io/a/b:1}]\n")
	two += "---\n" + two // a bug was to leave out the images of the second
	if _, err := source.ParseImageSetConfig("x.yaml", []byte(two)); !errors.Is(err, source.ErrImageSetConfig) {
		t.Errorf("two documents: got %v, want %v", err, source.ErrImageSetConfig)
	}
	older, err := source.ParseImageSetConfig("older.yaml", []byte(imageSet("  helm: {local: [{name: x}]}")))
	if err != nil {
		t.Fatal(err)
	}
	_, err = source.ReadOCMirror(t.Context(), files{newest: runLog("docker://quay.io/chart/c:2")}, kept("chart/c:1", "chart/c:2"),
		source.MirrorOptions{Config: older, Platform: "linux/amd64"})
	if !errors.Is(err, source.ErrUnknownNames) || !strings.HasSuffix(err.Error(), ": chart/c:1") {
		t.Errorf("an older configuration: got %v, want %v of chart/c:1", err, source.ErrUnknownNames)
	}
	_, err = source.ReadOCMirror(t.Context(), files{newest: runLog("docker://quay.io/chart/c:2")}, nil,
		source.MirrorOptions{Config: older, Platform: "linux/amd64"})
	if !errors.Is(err, source.ErrUnknownImages) {
		t.Errorf("an older configuration, without images: got %v, want %v", err, source.ErrUnknownImages)
	}
	for _, tests := range []map[string]namesTest{
		namesInConfiguration(), namesOfCharts(), namesOfReleases(), namesWithoutImages(),
	} {
		for name, c := range tests {
			t.Run(name, c.check)
		}
	}
}

func namesInConfiguration() map[string]namesTest {
	return map[string]namesTest{
		"of the configuration": {
			files{isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1'}, {name: 'docker://quay.io/c:2@" +
				sum("e").String() + "'}]")}, kept("a/b:1", "c:2"), "quay.io/a/b:1=a quay.io/c@" + sum("e").String() + "=e",
		},
		"docker.io's short path": {
			files{isc: imageSet("  additionalImages: [{name: 'docker.io/nginx:1'}]")}, kept("nginx:1"),
			"docker.io/library/nginx:1=a",
		},
		"with a target repository and tag": {
			files{isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1', targetRepo: x/y, targetTag: z}]")}, kept("x/y:z"),
			"quay.io/a/b:1=a",
		},
		"without blocked images": {
			files{isc: imageSet("  additionalImages: [{name: 'docker://quay.io/a/b:1'}, {name: 'quay.io/c/d:1'}]\n" +
				"  blockedImages: [{name: ^quay.io/a/}]")}, kept("c/d:1"), "quay.io/c/d:1=a",
		},
		"blocked by the name in the cache": {
			files{isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1'}, {name: 'quay.io/c/d:1'}]\n" +
				"  blockedImages: [{name: '^localhost:55000/a/'}]")}, kept("c/d:1"), "quay.io/c/d:1=a",
		},
		"an image of a folder, by a mapping": {files{
			isc:     imageSet("  additionalImages: [{name: 'oci:///srv/x'}, {name: 'quay.io/c/d:1'}]"),
			mapping: "docker://quay.io/x:1=docker://localhost:55000/srv/x:latest\n",
		},
			kept("c/d:1", "srv/x:latest"), "quay.io/x:1=b quay.io/c/d:1=a"},
		"the newest run's": {files{
			isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1'}]"),
			"working-dir/isc_pinned_2026-11-22T00:00:00Z.yaml": imageSet("  additionalImages: [{name: 'quay.io/a/b:2'}]"),
		}, kept("a/b:1", "a/b:2"), "quay.io/a/b:2=b"},
		"by mirror sets": {
			files{cluster: itms("quay.io/team/x", "reg:5000/p/q/x", "example.com/tools", "reg:5000/p/q/tools")},
			kept("tools/t:1", "x/y/z:2", "x:3"), "example.com/tools/t:1=a quay.io/team/x/y/z:2=b quay.io/team/x:3=c",
		},
		"not by the end of another path": {
			files{cluster: itms("wrong.example.com/a/tools", "reg/mirror/a/tools", "example.com/tools", "reg/mirror/tools")},
			kept("tools/t:1", "a/tools/t:1"), "wrong.example.com/a/tools/t:1=b example.com/tools/t:1=a",
		},
		"not where two hosts have one mirror": {
			files{cluster: itms("one.example.com/tools", "reg/m/tools", "two.example.com/tools", "reg/m/tools",
				"x.example.com/x", "reg/m/x")}, kept("tools/t:1", "x/y:1"), "error: tools/t:1",
		},
		"by a mapping": {
			files{mapping: "docker://quay.io/a/b:1=docker://localhost:55000/a/b:1\n" +
				"docker://localhost:55000/c/d:1=docker://reg/c/d:1\noci:///x=docker://localhost:55000/x:1\n"}, kept("a/b:1"),
			"quay.io/a/b:1=a",
		},
		"not by a mapping from the cache": {
			files{mapping: "docker://localhost:55000/c/d:1=docker://reg/c/d:1\noci:///x=docker://localhost:55000/x:1\n"},
			kept("c/d:1", "x:1"), "error: c/d:1, x:1",
		},
	}
}

func withCharts() files {
	return files{isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1'}]\n  helm: {local: [{name: x}]}")}
}

func namesOfCharts() map[string]namesTest {
	charts := withCharts()
	return map[string]namesTest{
		"of charts, by a mapping": {
			together(charts, files{mapping: "docker://quay.io/chart/c:1=docker://localhost:55000/chart/c:1\n"}),
			kept("a/b:1", "chart/c:1"), "quay.io/a/b:1=a quay.io/chart/c:1=b",
		},
		"of Docker Hub's charts": {
			together(charts, files{mapping: "docker://nginx:1=docker://localhost:55000/nginx:1\n"}), kept("a/b:1", "nginx:1"),
			"quay.io/a/b:1=a docker.io/library/nginx:1=b",
		},
		"of charts, not by mirror sets, which do not list what a run copied": {
			together(charts, files{cluster: itms("quay.io/chart", "reg/chart")}), kept("a/b:1", "chart/c:1", "chart/d:1"),
			"error: chart/c:1, chart/d:1",
		},
		// The images are in a mirror, not in the workspace. A bug was to leave them out.
		"of charts, by a mapping alone": {together(charts, files{mapping: "docker://quay.io/a/b:1=docker://reg/m/a/b:1\n" +
			"docker://quay.io/ocp@" + sum("f").String() + "=docker://reg/m/openshift/release:4.99.1-x86_64-x\n" +
			"docker://quay.io/chart/c:1=docker://reg/m/chart/c:1\ndocker://quay.io/chart/c@" + sum("e").String() +
			"=docker://reg/m/chart/c@" + sum("e").String() + "\n"}), nil, "quay.io/a/b:1= quay.io/chart/c:1="},
		// A bug was to leave them out, although the log names them.
		"of charts, by the log of the run": {together(charts, files{
			// of an earlier run
			"working-dir/logs/oc-mirror-20261120_020450.log": runLog("docker://quay.io/chart/c:0",
				"docker://other.example.com/chart/c:1"),
			newest: runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1", "docker://redis:7@"+sum("d").String()),
		}), kept("a/b:1", "chart/c:0", "chart/c:1", "redis:7"),
			"quay.io/a/b:1=a quay.io/chart/c:1=c docker.io/library/redis@" + sum("d").String() + "=d"},
		"of charts, by an incomplete log": {together(charts, files{
			newest: "images to copy 3 \n" + runLog("docker://quay.io/chart/c:1"),
		}),
			kept("a/b:1", "chart/c:1", "chart/d:1"), "error: chart/d:1"},
		"of charts, by a log of failures": {together(charts, files{
			newest: failed("docker://quay.io/chart/c:1", "quay.io/a/b:1", "docker://quay.io/chart/c:1"),
		}),
			kept("a/b:1"), "error: there is no chart/c:1"},
		// A bug was a panic.
		"a failed image, without a configuration": {files{
			newest: failed("docker://quay.io/c/d:1", "quay.io/a/b:1", "docker://quay.io/c/d:1"),
		},
			kept("a/b:1"), "error: quay.io/c/d:1, which the log of the run requests, is not in the output of " +
				"oc-mirror: there is no c/d:1"},
		// A bug was to leave out both.
		"of charts, not of two names in a log": {
			together(charts, files{newest: runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1",
				"docker://other.example.com/chart/c:1")}), kept("a/b:1", "chart/c:1"), "error: chart/c:1",
		},
		"of charts, not of two names": {
			together(charts, files{mapping: "docker://quay.io/chart/c:1=docker://localhost:55000/chart/c:1\n" +
				"docker://other.example.com/chart/c:1=docker://localhost:55000/chart/c:1\n"}), kept("a/b:1", "chart/c:1"),
			"error: chart/c:1",
		},
	}
}

func namesOfReleases() map[string]namesTest {
	return map[string]namesTest{
		"of the graph, which has none": {
			files{isc: imageSet("  platform: {graph: true}\n  additionalImages: [{name: 'quay.io/a/b:1'}]"),
				newest: runLog("quay.io/a/b:1", "docker://localhost:55000/openshift/graph-image:latest")},
			kept("a/b:1", "openshift/graph-image:latest"), "error: openshift/graph-image:latest",
		},
		"of KubeVirt, by the digest in a log": {files{
			isc:    imageSet("  platform: {kubeVirtContainer: true}\n  additionalImages: [{name: 'quay.io/a/b:1'}]"),
			newest: runLog("quay.io/ocp@" + sum("b").String()),
		},
			kept("a/b:1", "openshift/release:4.99.1-x86_64-kube-virt-container", "openshift/release:4.99.1-x86_64-x"),
			"quay.io/a/b:1=a quay.io/ocp@" + sum("b").String() + "=b"},
	}
}

// namesWithoutImages returns outputs of mirror to mirror. A bug was to leave out images of charts.
func namesWithoutImages() map[string]namesTest {
	charts := withCharts()
	const line = "docker://quay.io/%[1]s=docker://reg/m/%[1]s\n"
	one, two := fmt.Sprintf(line, "a/b:1"), fmt.Sprintf(line, "chart/c:1")
	unlisted := " of " + isc + " requests images, and neither mapping.txt nor a complete log of the run names them"
	// A log names the components of a release by their own names, for other architectures too.
	release := together(held("4.99.1-x86_64", "4.99.1"), files{
		isc: imageSet("  platform: {release: 'quay.io/ocp/ocp-release:4.99.1-x86_64', kubeVirtContainer: true}\n" +
			"  additionalImages: [{name: 'quay.io/a/b:1'}]\n  helm: {local: [{name: x}]}"),
	})
	parts := []string{
		"quay.io/a/b:1", "quay.io/ocp/ocp-release:4.99.1-x86_64", "quay.io/ocp/ocp-release@" + sum("c").String(),
		"quay.io/x@" + sum("f").String(), "docker://quay.io/chart/c:1",
	}
	return map[string]namesTest{
		"by nothing":                     {charts, nil, "error: mirror.helm" + unlisted},
		"by a mapping of something else": {together(charts, files{mapping: one}), nil, "error: mirror.helm" + unlisted},
		"by a mapping": {
			together(charts, files{mapping: one + two}), nil, "quay.io/a/b:1= quay.io/chart/c:1=",
		},
		"by a mapping of one, and a log": {
			together(charts, files{mapping: one + two, newest: runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1",
				"docker://quay.io/chart/d:1")}), nil, "quay.io/a/b:1= quay.io/chart/c:1= quay.io/chart/d:1=",
		},
		"by a log alone": {
			together(charts, files{newest: runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1")}), nil,
			"quay.io/a/b:1= quay.io/chart/c:1=",
		},
		"by a log, of charts without any": {together(charts, files{newest: runLog("quay.io/a/b:1")}), nil, "quay.io/a/b:1="},
		"by an incomplete log": {
			together(charts, files{newest: "images to copy 3 \n" + runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1")}), nil,
			"error: mirror.helm" + unlisted,
		},
		"by a log that failed at one": {
			together(charts, files{newest: failed("docker://quay.io/chart/c:1", "quay.io/a/b:1", "docker://quay.io/chart/c:1")}),
			nil, "quay.io/a/b:1= quay.io/chart/c:1=",
		},
		"by a log with a release": {
			together(release, files{newest: runLog(append(parts, "quay.io/x@"+sum("e").String())...)}), nil,
			"quay.io/a/b:1= quay.io/chart/c:1= quay.io/x@" + sum("e").String() + "=e",
		},
		"by one without KubeVirt": {
			together(release, files{newest: runLog(parts...)}), nil, "error: mirror.platform.kubeVirtContainer" + unlisted,
		},
		"by a log without a configuration": {
			files{newest: runLog("quay.io/a/b:1", "docker://quay.io/chart/c:1")}, nil, "quay.io/a/b:1= quay.io/chart/c:1=",
		},
	}
}

type releasesTest struct {
	set  string // of mirror.platform
	held string
	want string
}

func releasesOfChannels() map[string]releasesTest {
	return map[string]releasesTest{
		"a range": {
			"channels: [{name: stable-4.99, minVersion: 4.99.1, maxVersion: 4.99.2}]",
			"4.99.0-x86_64 4.99.1-x86_64 4.99.2-x86_64 4.99.3-x86_64", "4.99.1-x86_64 4.99.2-x86_64",
		},
		"the channel's head": {
			"channels: [{name: stable-4.99}]", "4.99.1-x86_64 4.99.12-x86_64 4.99.2-x86_64 4.100.0-x86_64", "4.99.12-x86_64",
		},
		"from a lowest to the head": {
			"channels: [{name: stable-4.99, minVersion: 4.99.2}]", "4.99.1-x86_64 4.99.2-x86_64 4.99.3-x86_64 4.100.0-x86_64",
			"4.99.2-x86_64 4.99.3-x86_64",
		},
		"up to a highest": {
			"channels: [{name: stable-4.99, maxVersion: 4.99.2}]", "4.99.1-x86_64 4.99.2-x86_64 4.99.3-x86_64",
			"4.99.1-x86_64 4.99.2-x86_64",
		},
		"all of a channel": {
			"channels: [{name: stable-4.99, full: true}]", "4.99.1-x86_64 4.99.2-x86_64 4.100.0-x86_64",
			"4.99.1-x86_64 4.99.2-x86_64",
		},
		"the steps between channels": {
			"channels: [{name: stable-4.99, minVersion: 4.99.1, maxVersion: 4.99.1}, {name: stable-4.100, minVersion: " +
				"4.100.0, maxVersion: 4.100.0}]", "4.99.1-x86_64 4.99.2-x86_64 4.100.0-x86_64 4.100.1-x86_64",
			"4.99.1-x86_64 4.99.2-x86_64 4.100.0-x86_64",
		},
	}
}

func releasesByName() map[string]releasesTest {
	return map[string]releasesTest{
		"OKD's channels": {
			"channels: [{name: 4-scos-stable, type: okd}]", "4.20.0-okd-scos.1 4.20.0-okd-scos.2", "4.20.0-okd-scos.2",
		},
		"for the nodes' architecture": {
			"channels: [{name: stable-4.99}]", "4.99.1-x86_64 4.99.2-aarch64", "4.99.1-x86_64",
		},
		"several architectures in one": {"channels: [{name: stable-4.99}]", "4.99.1-multi", "4.99.1-multi"},
		"by its tag": {
			"release: 'quay.io/ocp/ocp-release:4.99.2-x86_64'", "4.99.1-x86_64 4.99.2-x86_64", "4.99.2-x86_64",
		},
		"by its digest": {
			"release: 'quay.io/ocp/ocp-release@" + sum("b").String() + "'", "4.99.1-x86_64 4.99.2-x86_64", "4.99.2-x86_64",
		},
		"a release that is missing": {
			"channels: [{name: stable-4.98}]", "4.99.1-x86_64", "error: hold-release does not have it",
		},
		"none for the architecture": {
			"channels: [{name: stable-4.99}]", "4.99.1-aarch64", "error: on amd64, but 4.99.1-aarch64",
		},
		"an invalid version": {
			"channels: [{name: stable-4.99, minVersion: 4.99.1x}]", "4.99.1-x86_64", "error: channel stable-4.99",
		},
		"blocked": {
			"channels: [{name: stable-4.99}]}\n  additionalImages: [{name: 'quay.io/a/b@" + sum("e").String() +
				"'}]\n  blockedImages: [{name: ocp-release", "4.99.1-x86_64", "",
		},
	}
}

func TestReleasesOfOCMirror(t *testing.T) {
	for _, tests := range []map[string]releasesTest{releasesOfChannels(), releasesByName()} {
		for name, c := range tests {
			t.Run(name, func(t *testing.T) {
				all, tags := releases(strings.Fields(c.held)...)
				closing := "}"
				if strings.Contains(c.set, "blocked") {
					closing = "}]"
				}
				all[isc] = imageSet("  platform: {" + c.set + closing)
				found, err := source.ReadOCMirror(t.Context(), all, tags, source.MirrorOptions{Platform: "linux/amd64"})
				if want, ok := strings.CutPrefix(c.want, "error: "); ok {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("got %v, want %q", err, want)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for _, m := range found.Releases {
					if m.Repository != "quay.io/ocp/ocp-release" {
						t.Errorf("got %+v, want one of quay.io/ocp/ocp-release", m)
					}
					got = append(got, m.Tag)
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

// oc-mirror stores a release under its digest if it is requested by digest, or by a tag without a
// signature check.
func TestReleaseStoredByDigest(t *testing.T) {
	all := files{}
	for path, content := range held("x", "4.99.1") {
		all[strings.Replace(path, "ocp-release/x", "ocp-release@sha256/"+sum("a").Encoded(), 1)] = content
	}
	for _, release := range []string{
		"quay.io/ocp/ocp-release@" + sum("a").String(), "quay.io/ocp/ocp-release:4.99.1-x86_64",
	} {
		t.Run(release, func(t *testing.T) {
			all[isc] = imageSet("  platform: {release: '" + release + "'}")
			found, err := source.ReadOCMirror(t.Context(), all, kept("openshift/release-images:"+sum("a").Encoded()),
				source.MirrorOptions{Platform: "linux/amd64"})
			if err != nil || len(found.Releases) != 1 || found.Releases[0].Stored != sum("a") ||
				found.Releases[0].Repository != "quay.io/ocp/ocp-release" {
				t.Errorf("got %+v, %v; want quay.io/ocp/ocp-release with the digest %s", found.Releases, err, sum("a"))
			}
		})
	}
}

const operators = "working-dir/operator-catalogs/index/"

// fbc returns a file-based catalog with a bundle of one image, and other objects.
func fbc(letter string) string {
	return fmt.Sprintf(
		`{"schema":"olm.package","name":"x"} {"schema":"x.unknown","image":{"a":1}} {"schema":"olm.bundle","name":"x","image":"quay.io/bundle@%s","relatedImages":[{"image":"quay.io/no-tag"},{"image":""}]}`, sum(letter))
}

// operatorCatalog returns a workspace with a catalog of a registry and one of a folder, both filtered.
func operatorCatalog() files {
	hex := sum("a").Encoded()
	// oc-mirror names a filtered catalog by the MD5 sum of its selection, without the transport.
	filterOf := func(name string) (filter string) {
		selection := `{"packages":[{"name":"foo"}],"catalog":"` + name + "@" + sum("a").String() + `"}`
		fips140.WithoutEnforcement(func() { filter = fmt.Sprintf("%x", md5.Sum([]byte(selection))) })
		return filter
	}
	filter, ofFolder := filterOf("quay.io/x/index"), filterOf("/srv/index")
	return files{
		"working-dir/dry-run/mapping.txt":                                                       "docker://quay.io/index:7=docker://localhost:55000/index:latest\n",
		operators + hex + "/filtered-catalogs/" + ofFolder + "/digest":                          sum("e").Encoded(),
		operators + hex + "/filtered-catalogs/" + ofFolder + "/catalog-config/foo/catalog.json": fbc("f"),
		operators + hex + "/catalog-config/configs/all/catalog.json":                            fbc("b"),
		operators + hex + "/filtered-catalogs/" + filter + "/digest":                            sum("c").Encoded(),
		operators + hex + "/filtered-catalogs/" + filter + "/catalog-config/foo/catalog.json":   fbc("d"),
		// of an earlier run
		operators + hex + "/filtered-catalogs/ffff/digest": sum("e").Encoded(),
	}
}

// With GODEBUG=fips140=only, the MD5 sum by which oc-mirror names a catalog is computed all the same: it secures
// nothing.
func TestCatalogsUnderFIPS(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-test.run=^TestCatalogsOfOCMirror$", "-test.v")
	cmd.Env = append(os.Environ(), "GODEBUG=fips140=only")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestCatalogsOfOCMirror/filtered ") {
		t.Errorf("got %v, want that the filtered catalogs are found\n%s", err, out)
	}
}

// A bug was to compute the sum of a catalog with its transport: no selection has that sum.
func TestCatalogsOfOCMirror(t *testing.T) {
	for name, c := range map[string]struct {
		set  string
		tags map[string]godigest.Digest
		want string
	}{
		"filtered": {
			"catalog: 'quay.io/x/index:v1', packages: [{name: foo}]", kept("x/index:v1"),
			"quay.io/x/index:v1=c quay.io/bundle@" + sum("d").String() + "=d",
		},
		"with a transport": {
			"catalog: 'docker://quay.io/x/index:v1', packages: [{name: foo}]", kept("x/index:v1"),
			"quay.io/x/index:v1=c quay.io/bundle@" + sum("d").String() + "=d",
		},
		"of a folder": {
			"catalog: 'oci:///srv/index', packages: [{name: foo}]", kept("index:latest"),
			"quay.io/index:7=e quay.io/bundle@" + sum("f").String() + "=f",
		},
		"full": {
			"catalog: 'quay.io/x/index:v1', full: true", kept("x/index:v1"),
			"quay.io/x/index:v1=a quay.io/bundle@" + sum("b").String() + "=b",
		},
		"with a target catalog": {
			"catalog: 'quay.io/x/index:v1', targetCatalog: my/index, targetTag: z, packages: [{name: foo}]", kept("my/index:z"),
			"quay.io/x/index:v1=c quay.io/bundle@" + sum("d").String() + "=d",
		},
		"by digest, as oc-mirror pins": {
			"catalog: 'quay.io/x/index@" + sum("a").String() + "', targetTag: v1, packages: [{name: foo}]", kept("x/index:v1"),
			"quay.io/x/index:v1@" + sum("a").String() + "=c quay.io/bundle@" + sum("d").String() + "=d",
		},
		"filtered by something else": {
			"catalog: 'quay.io/x/index:v1', packages: [{name: bar}]", kept("x/index:v1"),
			"error: filtered-catalogs has no such selection",
		},
		"missing": {
			"catalog: 'quay.io/x/other:v1', packages: [{name: foo}]", kept("x/index:v1"), "error: there is no x/other:v1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := together(operatorCatalog(), files{isc: imageSet("  operators: [{" + c.set + "}]")})
			found, err := source.ReadOCMirror(t.Context(), all, c.tags, source.MirrorOptions{Platform: "linux/amd64"})
			if want, ok := strings.CutPrefix(c.want, "error: "); ok {
				if !errors.Is(err, source.ErrNotMirrored) || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %v with %q", err, source.ErrNotMirrored, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, letters(found.Images)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// oc-mirror stores images whose names differ only in the host under one name, so one overwrites the
// other. This is detected in either order, and if one is a catalog.
func TestCollisionsOfOCMirror(t *testing.T) {
	const one, two = "{name: 'one.example.com/a/b:1'}", "{name: 'two.example.com/a/b:1'}"
	pinned := "{name: 'two.example.com/a/b:1@" + sum("e").String() + "'}"
	for _, set := range []string{
		"  additionalImages: [" + one + ", " + two + "]", "  additionalImages: [" + one + ", " + pinned + "]",
		"  additionalImages: [" + pinned + ", " + one + "]",
		"  additionalImages: [" + one + "]\n  operators: [{catalog: 'two.example.com/a/b:1', full: true}]",
	} {
		t.Run(set, func(t *testing.T) {
			_, err := source.ReadOCMirror(t.Context(), files{isc: imageSet(set)}, kept("a/b:1"),
				source.MirrorOptions{Platform: "linux/amd64"})
			if !errors.Is(err, source.ErrCollision) || !strings.Contains(err.Error(), "one.example.com/a/b:1") ||
				!strings.Contains(err.Error(), "two.example.com/a/b:1") {
				t.Errorf("got %v, want %v of one.example.com/a/b:1 and two.example.com/a/b:1", err, source.ErrCollision)
			}
		})
	}
	chart := files{
		isc:    imageSet("  additionalImages: [" + one + "]\n  helm: {local: [{name: x}]}"),
		newest: runLog("one.example.com/a/b:1", "docker://two.example.com/a/b:1"),
	}
	if _, err := source.ReadOCMirror(t.Context(), chart, kept("a/b:1"), source.MirrorOptions{Platform: "linux/amd64"}); !errors.Is(err,
		source.ErrCollision) {
		t.Errorf("an image of a chart: got %v, want %v", err, source.ErrCollision)
	}
	both := "  additionalImages: [{name: 'one.example.com/a/b@" + sum("a").String() + "'}, {name: 'two.example.com/a/b@" +
		sum("a").String() + "'}]"
	if found, err := source.ReadOCMirror(t.Context(), files{isc: imageSet(both)}, kept("a/b:sha256-"+sum("a").Encoded()),
		source.MirrorOptions{Platform: "linux/amd64"}); err != nil || len(found.Images) != 2 {
		t.Errorf("one image with two names: got %+v, %v; want both names", found.Images, err)
	}
}

// Images that `platforms` excludes were never mirrored. A bug was an error that requested the archives of
// earlier runs.
func TestPlatformsThatOCMirrorDrops(t *testing.T) {
	catalog := files{
		operators + sum("b").Encoded() + "/catalog-config/catalog.json": fbc("d"),
	}
	all, tags := releases("4.99.1-multi")
	all = together(all, catalog, files{
		"working-dir/dry-run/mapping.txt": "docker://quay.io/a/b:1=docker://localhost:55000/a/b:1\n" +
			"docker://quay.io/x/index:v1=docker://localhost:55000/x/index:v1\n",
	})
	tags["a/b:1"], tags["x/index:v1"] = sum("c"), sum("b")
	const amd, arm = "platforms: [{os: linux, architecture: amd64}]",
		"platforms: [{os: linux, architecture: arm64}, {os: linux, architecture: s390x}]"
	for set, want := range map[string]string{
		"  additionalImages: [{name: 'quay.io/a/b:1', " + arm +
			"}]": "mirror.additionalImages[0].platforms of " + isc + " has linux/arm64, linux/s390x",
		"  additionalImages: [{name: 'quay.io/a/b:1', " + amd + "}]":                                   "",
		"  additionalImages: [{name: 'quay.io/a/b:1'}, {name: 'docker://quay.io/a/b:1', " + arm + "}]": "",
		"  operators: [{catalog: 'quay.io/x/index:v1', full: true, " + arm +
			"}]": "mirror.operators[0].platforms of " + isc + " has linux/arm64, linux/s390x",
		"  platform: {channels: [{name: stable-4.99, minVersion: 4.99.1, maxVersion: 4.99.1}], " + arm +
			"}": "mirror.platform.platforms of " + isc + " has linux/arm64, linux/s390x",
		"  helm: {local: [{name: x, " + arm +
			"}]}": "platforms of every chart of " + isc + " has linux/arm64, linux/s390x",
		"  helm: {local: [{name: x, " + arm + "}], repositories: [{name: y, charts: [{name: z}]}]}": "",
	} {
		t.Run(set, func(t *testing.T) {
			all[isc] = imageSet(set)
			found, err := source.ReadOCMirror(t.Context(), all, tags, source.MirrorOptions{Platform: "linux/amd64"})
			if err != nil {
				t.Error(err)
			}
			for _, m := range slices.Concat(found.Images, found.Releases) {
				if m.FilteredBy != want {
					t.Errorf("got %s filtered by %q, want %q", m, m.FilteredBy, want)
				}
			}
		})
	}
}

// The name of a field excludes all images that it requests. A pattern does not match it.
func TestExcludedFieldOfOCMirror(t *testing.T) {
	for _, tags := range []map[string]godigest.Digest{nil, kept("a/b:1", "chart/c:1")} {
		found, err := source.ReadOCMirror(t.Context(), withCharts(), tags, source.MirrorOptions{
			Exclude: []string{"mirror.helm"}, Platform: "linux/amd64",
		})
		if err != nil || len(found.Images) != 1 {
			t.Errorf("got %q, %v; want one image", letters(found.Images), err)
		}
	}
	if _, err := source.ReadOCMirror(t.Context(), withCharts(), nil, source.MirrorOptions{Exclude: []string{"mirror.*"},
		Platform: "linux/amd64"}); !errors.Is(err, source.ErrExclude) {
		t.Errorf("got %v, want %v", err, source.ErrExclude)
	}
}

// Excluded images may be missing. A * does not match a slash.
func TestExcludeOfOCMirror(t *testing.T) {
	set := files{
		isc: imageSet("  additionalImages: [{name: 'quay.io/a/b:1'}, {name: 'quay.io/c/d@" + sum("e").String() +
			"'}, {name: 'quay.io/gone:1'}]"),
	}
	for _, c := range []struct{ exclude, want string }{
		{"quay.io/gone", "quay.io/a/b:1 quay.io/c/d@" + sum("e").String()},
		{"quay.io/gone:* quay.io/a/*", "quay.io/c/d@" + sum("e").String()},
		{"gone quay.io/?/d@" + sum("e").String(), "quay.io/a/b:1"},
		{"quay.io/*", "quay.io/a/b:1 quay.io/c/d@" + sum("e").String()},
		{"quay.io/gone quay.io/d", "error"},
	} {
		t.Run(c.exclude, func(t *testing.T) {
			found, err := source.ReadOCMirror(t.Context(), set, kept("a/b:1"), source.MirrorOptions{
				Exclude: strings.Fields(c.exclude), Platform: "linux/amd64",
			})
			var got []string
			for _, m := range found.Images {
				got = append(got, m.String())
			}
			if c.want == "error" && !errors.Is(err, source.ErrExclude) ||
				c.want != "error" && (err != nil || strings.Join(got, " ") != c.want) {
				t.Errorf("got %q, %v; want %q", got, err, c.want)
			}
		})
	}
}
