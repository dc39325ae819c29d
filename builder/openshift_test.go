package builder_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/builder/verify"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// An object without the label of a pool belongs to no pool of OpenShift: each pool gets a copy. The cluster takes all
// manifests.
func TestManifestsOfACluster(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	for version, cluster := range map[string]fixtures.Cluster{
		"4.18": fixtures.OpenShift418, "4.20": fixtures.OpenShift,
	} {
		t.Run(version, func(t *testing.T) {
			o := options(t, append(append(sample.Set("infra", pins.Docker), "---\n"...), sample.SetNamed("all", pins.Pause)...))
			o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.Images{pins.Mixed}})
			o.Appliance.Spec.OpenShift = &spec.OpenShift{Version: version, Podman: true}
			result := build(t, o)
			if !slices.ContainsFunc(result.Warnings, func(w string) bool {
				return strings.Contains(w, `set "all" has no label machineconfiguration.openshift.io/role`) &&
					strings.Contains(w, "all-worker, all-master instead")
			}) {
				t.Errorf("got the warnings %v, want one for the set without a pool", result.Warnings)
			}
			var names []string
			for _, set := range appliance.Lock(t, o.Out).Sets {
				names = append(names, set.Name)
			}
			name := o.Appliance.Metadata.Name
			want := []string{"all-master", "all-worker", name + "-images-master", name + "-images-worker", "infra-sample"}
			slices.Sort(want)
			if !slices.Equal(names, want) {
				t.Errorf("got the sets %v, want %v", names, want)
			}
			manifests := filepath.Join(o.Out, artifact.ManifestsDir)
			var objects [][]byte
			for _, pattern := range []string{"*.yaml", "sets/*.yaml", "nodes/*.yaml", "podman/*.yaml"} {
				files, err := filepath.Glob(filepath.Join(manifests, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					content, err := os.ReadFile(file)
					if err != nil {
						t.Fatal(err)
					}
					objects = append(objects, content)
				}
			}
			if refused := cluster.Check(t, bytes.Join(objects, []byte("---\n"))); refused != "" || len(objects) != 10 {
				t.Errorf("got %d manifests, and %s; want 10 that the cluster takes", len(objects), refused)
			}
			for _, command := range result.Apply {
				for i, word := range strings.Fields(command) {
					if i > 0 && strings.Fields(command)[i-1] == "-f" {
						if _, err := os.Stat(word); err != nil {
							t.Errorf("%s: %v", command, err)
						}
					}
				}
			}
			applies := strings.Contains(strings.Join(result.Apply, "\n"), "infra-sample.yaml")
			if applies != (version == "4.20") || len(result.Apply) == 0 {
				t.Errorf("got the commands %q, want the sets only where the operator pins", result.Apply)
			}
			if _, err := verify.Release(t.Context(), o.Out, verify.Options{}); err != nil {
				t.Errorf("verify: %v", err)
			}
		})
	}
}

// A delta with a release of OpenShift has all that an update to it needs: its digest, and its signatures as the cluster
// looks for them.
func TestUpdateOfACluster(t *testing.T) {
	t.Parallel()
	o, _, registry, _ := pushRelease(t, 4)
	o.Appliance.Spec.OpenShift = &spec.OpenShift{Version: "4.20", Pools: []string{"worker"}}
	if _, err := builder.Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	next, err := registry.PushRelease(t.Context(), "4.99.2", 5)
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(next.Pin, "@")
	signature, key := signed(t, digest)
	other, _ := signed(t, "sha256:"+strings.Repeat("0", 64))
	dir := t.TempDir()
	folder := filepath.Join(dir, strings.Replace(digest, ":", "=", 1))
	if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "signature-1"), other, 0o644),
		os.WriteFile(filepath.Join(folder, "signature-2"), signature, 0o644),
		os.WriteFile(filepath.Join(dir, "key"), key, 0o644)); err != nil {
		t.Fatal(err)
	}
	verified := source.Signatures{Files: []string{dir}, Keys: []string{filepath.Join(dir, "key")}}
	update := "oc adm upgrade --allow-explicit-upgrade --to-image " + next.Pin
	for name, c := range map[string]struct {
		signatures []source.Signatures // of each source
		commands   int
	}{
		"signed":               {[]source.Signatures{verified}, 3},
		"without signatures":   {[]source.Signatures{{}}, 2},
		"named by two sources": {[]source.Signatures{{}, verified}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.From, o.Out = []string{o.Out}, filepath.Join(t.TempDir(), "delta")
			o.Appliance.Spec.Sources = nil
			for _, signatures := range c.signatures {
				release := &source.Release{Image: next.Tag, Signatures: signatures}
				o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: release})
			}
			r, err := builder.Delta(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			warned := strings.Contains(strings.Join(r.Warnings, "\n"), "release 4.99.2 has no signature")
			if n := len(r.Apply); n != c.commands || r.Apply[n-1] != update || warned != (c.commands == 2) {
				t.Errorf("got the commands %q and the warnings %q, want %d, the last %s", r.Apply, r.Warnings, c.commands, update)
			}
			path := filepath.Join(o.Out, "manifests/release-signatures.yaml")
			if c.commands == 2 {
				if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("got %v, want no signatures", err)
				}
				return
			}
			got, err := source.ReadSignatures(path, godigest.Digest(digest))
			if err != nil || len(got) != 1 || !bytes.Equal(got[0], signature) {
				t.Errorf("got the signatures %q, %v, want the one for the release", got, err)
			}
			var object corev1.ConfigMap
			if content, err := os.ReadFile(path); err != nil || yaml.UnmarshalStrict(content, &object) != nil ||
				object.Namespace != "openshift-config-managed" || len(object.BinaryData) != 1 {
				t.Errorf("got %+v, %v, want a ConfigMap of the cluster", object, err)
			}
		})
	}
}
