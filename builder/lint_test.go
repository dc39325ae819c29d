package builder_test

import (
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder/lint"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
)

// lint reports an image if and only if CRI-O does not have it.
func TestLintReportsWhatCRIOLacks(t *testing.T) {
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
		objects, err := source.ReadObjects([]string{"-"},
			strings.NewReader("containers: [{image: '"+name+"', imagePullPolicy: Never}]"))
		if err != nil {
			t.Fatal(err)
		}
		if findings := lint.Check(objects, lock); exists == (len(findings) > 0) {
			t.Errorf("got %v from lint for %s, want findings: %v", findings, name, !exists)
		}
	}
}
