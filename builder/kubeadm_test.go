package builder_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
)

// kubeadmImages is the output of `kubeadm config images list --kubernetes-version v1.36.3` of kubeadm 1.36.3, and the
// pause image of CRI-O 1.34, which is another: `crio config` prints it.
const kubeadmImages = `registry.k8s.io/kube-apiserver:v1.36.3
registry.k8s.io/kube-controller-manager:v1.36.3
registry.k8s.io/kube-scheduler:v1.36.3
registry.k8s.io/kube-proxy:v1.36.3
registry.k8s.io/coredns/coredns:v1.14.2
registry.k8s.io/pause:3.10.2
registry.k8s.io/etcd:3.6.8-0
registry.k8s.io/pause:3.10
`

// The list of kubeadm, with tags, is an input as it is: each image is on the node by its tag, which is what kubeadm's
// manifests and its preflight check name, and pinned.
func TestImageListOfKubeadm(t *testing.T) {
	t.Parallel()
	registry, pins := fixtures.Samples(t)
	images := strings.Fields(kubeadmImages)
	kinds := []string{pins.Mixed, pins.Docker, pins.Other, pins.Pause}
	for n, name := range images {
		tagged(t, kinds[n%len(kinds)], strings.Replace(name, "registry.k8s.io", registry.Host, 1))
	}
	list := filepath.Join(t.TempDir(), "images.txt")
	if err := os.WriteFile(list, []byte(kubeadmImages), 0o644); err != nil {
		t.Fatal(err)
	}
	o := options(t, nil)
	o.Appliance.Spec.Sources = []source.Entry{{Source: &source.ImageLists{list}}}
	o.Appliance.Spec.Mirrors = mirrors(t, "ImageTagMirrorSet", "imageTagMirrors", "registry.k8s.io", registry.Host,
		"NeverContactSource")
	n := appliance.Boot(t, o, "")
	if err := registry.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(o.Out, runbook.File))
	if want := "\nkubeadm init --kubernetes-version v1.36.3 "; err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%s: got %v and\n%s\nwant %q", runbook.File, err, text, want)
	}
	n.Start()
	for _, name := range images {
		status, err := n.Images().ImageStatus(t.Context(), &criapi.ImageStatusRequest{Image: &criapi.ImageSpec{Image: name}})
		if err != nil || status.Image == nil || !status.Image.Pinned {
			t.Errorf("got %v, %v; want the image %s, pinned", status.GetImage(), err, name)
		}
	}
}
