package source

import (
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
)

// KubeletPolicy is what a configuration of the kubelet says about images that are on the node: a
// KubeletConfiguration, or any object that contains one, such as OpenShift's KubeletConfig.
type KubeletPolicy struct {
	// Policy is imagePullCredentialsVerificationPolicy.
	Policy Field
	// Allowed is preloadedImagesVerificationAllowlist.
	Allowed []Field
}

// kubelet adds the policy in a mapping, if it has one.
func (w *walker) kubelet(n *yaml.Node) {
	k := KubeletPolicy{Policy: w.field(document.Field(n, "imagePullCredentialsVerificationPolicy"))}
	if list := document.Field(n, "preloadedImagesVerificationAllowlist"); list != nil {
		for _, item := range list.Content {
			k.Allowed = append(k.Allowed, w.field(item))
		}
	}
	if k.Policy.Text != "" || len(k.Allowed) > 0 {
		w.Kubelets = append(w.Kubelets, k)
	}
}

// alwaysPull matches the admission plugin in a list of plugins: a flag of kube-apiserver, or the value of one
// in kubeadm's or OpenShift's configuration.
var alwaysPull = regexp.MustCompile(`^(--enable-admission-plugins=)?([A-Za-z]+,)*AlwaysPullImages(,[A-Za-z]+)*$`)

// plugin adds a text that switches on the admission plugin AlwaysPullImages.
func (w *walker) plugin(n *yaml.Node) {
	if alwaysPull.MatchString(n.Value) {
		w.AlwaysPull = append(w.AlwaysPull, w.field(n))
	}
}
