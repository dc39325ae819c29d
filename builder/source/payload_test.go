package source_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
)

// references is an ImageStream with these tags.
func references(tags ...string) string {
	return `{"kind":"ImageStream","apiVersion":"image.openshift.io/v1","metadata":{"name":"4.18.3"},"spec":{"tags":[` +
		strings.Join(tags, ",") + `]}}`
}

func component(name, image string) string {
	return `{"name":"` + name + `","from":{"kind":"DockerImage","name":"` + image + `"}}`
}

const etcd, cli = "quay.io/openshift-release-dev/ocp-v4.0-art-dev" + digest, "quay.io/o/cli" + digest

func TestChooseComponents(t *testing.T) {
	r, err := source.ParsePayload([]byte(references(component("etcd", etcd), component("cli", cli),
		component("cli-artifacts", cli),
		component("rhel-coreos-10", etcd), component("rhel-coreos-extensions", etcd),
		`{"name":"okd-os","annotations":{"io.openshift.build.versions":"kernel=5,machine-os=9"},"from":{"kind":"DockerImage","name":"`+etcd+`"}}`)),
		[]byte(`{"kind":"cincinnati-metadata-v0","version":"4.18.3"}`))
	if err != nil || r.Version != "4.18.3" {
		t.Fatalf("got version %q, %v; want 4.18.3", r.Version, err)
	}
	for name, c := range map[string]struct {
		include, exclude []string
		machineOS        bool
		want             string
		text             string // of the error
	}{
		"all that CRI-O pulls": {want: "etcd cli cli-artifacts"},
		"with the system": {
			machineOS: true, want: "etcd cli cli-artifacts rhel-coreos-10 rhel-coreos-extensions okd-os",
		},
		"some":                  {include: []string{"cli*"}, want: "cli cli-artifacts"},
		"all but some":          {exclude: []string{"cli-*", "okd-os"}, want: "etcd cli"},
		"a system by its name":  {include: []string{"okd-os"}, want: "okd-os"},
		"a system by a pattern": {include: []string{"okd*", "etcd"}, want: "etcd"},
		"a name that is misspelt": {
			exclude: []string{"ectd"}, text: `component of the release "ectd": release 4.18.3 has no such component`,
		},
		"an invalid pattern": {include: []string{"["}, text: "syntax error in pattern"},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := r.Select(c.include, c.exclude, c.machineOS)
			var got []string
			for _, component := range selected {
				got = append(got, component.Name)
			}
			if strings.Join(got, " ") != c.want || (err == nil) != (c.text == "") ||
				err != nil && !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %q, %v; want %q, %q", got, err, c.want, c.text)
			}
		})
	}
}

func TestInvalidReleases(t *testing.T) {
	good := references(component("etcd", etcd))
	for name, c := range map[string]struct {
		references, metadata string
		want                 error
		text                 string // of the error
	}{
		"another image": {"", "", source.ErrRelease, "no release-manifests/image-references"},
		"not JSON":      {"{", "", source.ErrRelease, "image-references"},
		"another kind":  {`{"kind":"List"}`, "", source.ErrRelease, "not an ImageStream"},
		"no component":  {references(), "", source.ErrRelease, "lists no component"},
		"another version": {
			good, `{"kind":"cincinnati-metadata-v0","version":"4.18.4"}`, source.ErrRelease, `"4.18.4"`,
		},
		"metadata of another kind": {good, `{"kind":"x","version":"4.18.3"}`, source.ErrRelease, `"4.18.3"`},
		"truncated metadata":       {good, `{"kind"`, source.ErrRelease, "release-metadata"},
		"component by tag": {
			references(component("etcd", "quay.io/o/etcd:4")), "", source.ErrComponent,
			"etcd: image \"quay.io/o/etcd:4\": not a digest reference",
		},
		"component without image": {references(`{"name":"etcd"}`), "", source.ErrComponent, "etcd: it names no image"},
		"two images of one name": {
			references(component("etcd", etcd), component("etcd", cli)), "", source.ErrComponent, "etcd: it is listed twice",
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := source.ParsePayload([]byte(c.references), []byte(c.metadata))
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

// The files that oc-mirror extracts from a release are parsed too.
func TestReleaseOfOCMirror(t *testing.T) {
	dir := filepath.Join(fixtures.Root(t),
		"../shared/data/oc-mirror/workspace/m2d-run1/hold-release/ocp-release/4.99.1-x86_64")
	content, err := os.ReadFile(filepath.Join(dir, source.ImageReferences))
	if err != nil {
		t.Skipf("no sample of oc-mirror: %v", err)
	}
	metadata, err := os.ReadFile(filepath.Join(dir, source.ReleaseMetadata))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	r, err := source.ParsePayload(content, metadata)
	if err != nil || r.Version != "4.99.1" || len(r.Components) < 3 {
		t.Errorf("got %+v, %v; want version 4.99.1 with 3 components or more", r, err)
	}
}

func TestReadSignatures(t *testing.T) {
	const hex = "513cf1028aa1a021fa73d0601427a0fbcf6d212b88aaf9d76d4e4841a061e44e"
	dir := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(content), 0o644)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("folder/sha256="+hex+"/signature-1", "one")
	write("folder/sha256="+hex+"/signature-2", "two")
	configMap := "kind: ConfigMap\nbinaryData:\n  sha256-" + hex + "-1: b25l\n  sha256-" + strings.Repeat("0",
		64) + "-1: dHdv\n"
	for path, want := range map[string][]string{
		filepath.Join(dir, "folder"):                                  {"one", "two"},
		write("signature-1", "one"):                                   {"one"},
		write("signatures.yaml", "---\nkind: Other\n---\n"+configMap): {"one"},
		write("empty.yaml", "kind: ConfigMap\n"):                      nil,
		write("bad.yaml", strings.Replace(configMap, "b25l", "?", 1)): nil,
		t.TempDir(): nil,
	} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			signatures, err := source.ReadSignatures(path, "sha256:"+hex)
			var got []string
			for _, s := range signatures {
				got = append(got, string(s))
			}
			if diff := cmp.Diff(want, got); diff != "" || (want == nil) != errors.Is(err, source.ErrNoSignature) {
				t.Errorf("got %v (-want +got):\n%s", err, diff)
			}
		})
	}
}
