package builder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/storage/layout"
)

// lint reports an image if and only if CRI-O does not have it.
func TestLintReportsWhatCRIOLacks(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	o, tag := named(t, registry, pins)
	o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.Images{pins.Index}})
	n := appliance.Boot(t, o, pins.Pause)
	n.Start()
	lock := appliance.Lock(t, o.Out)
	names := []string{tag, strings.TrimSuffix(tag, ":1.2"), tag + "0", "app:1.2", "tools/app:1.2", "docker://" + tag}
	for _, img := range lock.Images {
		repository, pinned, _ := strings.Cut(img.Pin, "@")
		_, path, _ := strings.Cut(repository, "/")
		for _, d := range []string{pinned, img.Manifest.String(), img.Config.String()} {
			names = append(names, repository+"@"+d, repository+":9@"+d, repository+"/more@"+d, "other.example.com/"+path+"@"+d,
				path+"@"+d)
		}
	}
	for _, name := range names {
		status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: name}})
		exists := err == nil && status.Image != nil
		objects, err := source.ReadObjects(t.Context(), []string{"-"},
			strings.NewReader("containers: [{image: '"+name+"', imagePullPolicy: Never}]"))
		if err != nil {
			t.Fatal(err)
		}
		if findings := lint.Check(objects, lock); exists == (len(findings) > 0) {
			t.Errorf("got %v from lint for %s, want findings: %v", findings, name, !exists)
		}
	}
}

// An image volume is in the lock, and a build warns of it unless the node copies it.
func TestImageVolumesInTheLock(t *testing.T) {
	t.Parallel()
	_, pins := fixtures.Samples(t)
	file := filepath.Join(t.TempDir(), "pod.yaml")
	if err := os.WriteFile(file, []byte("kind: Pod\nspec:\n  containers: [{image: "+pins.Docker+"}]\n"+
		"  volumes: [{image: {reference: "+pins.Other+"}}]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[layout.ImageVolumes]bool{
		"": true, layout.ImageVolumesReport: true, layout.ImageVolumesCopy: false,
	} {
		t.Run(string(value), func(t *testing.T) {
			o := options(t, pins.Sets())
			o.Appliance.Spec.Sources = append(o.Appliance.Spec.Sources, source.Entry{Source: &source.Manifests{Paths: []string{file}}})
			o.Appliance.Spec.Node.ImageVolumes = value
			lock, warnings, err := builder.Plan(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			for _, img := range lock.Images {
				if img.Volume != (img.Pin == pins.Other) {
					t.Errorf("%s: got the volume %v in the lock, want %s alone", img.Pin, img.Volume, pins.Other)
				}
			}
			text := strings.Join(warnings, "\n")
			if got := strings.Contains(text, "pods that mount "+pins.Other+" as an image volume"); got != want {
				t.Errorf("got the warnings %q, want one of the volume: %v", text, want)
			}
		})
	}
}
