package lint_test

import (
	"strings"
	"testing"
)

// KEP-2535: which images of stores the kubelet lets pods use without a registry.
func TestKubeletConfigurations(t *testing.T) {
	const configuration = "kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\n"
	const policy, list = "imagePullCredentialsVerificationPolicy: ", "\npreloadedImagesVerificationAllowlist: "
	const all = "[quay.io/site/*, docker.io/library/nginx]"
	for _, c := range []struct{ name, object, rules, text string }{
		{"default", configuration, "", ""},
		{"never", configuration + policy + "NeverVerify", "", ""},
		{"always", configuration + policy + "AlwaysVerify", "kubelet-verify", "Error: ImagePullBackOff"},
		{"in a KubeletConfig of OpenShift", "apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\n" +
			"spec: {kubeletConfig: {" + policy + "AlwaysVerify}}", "kubelet-verify", "AlwaysVerify"},
		{"all are allowed", configuration + policy + "NeverVerifyAllowlistedImages" + list + all, "", ""},
		{"some are allowed", configuration + policy + "NeverVerifyAllowlistedImages" + list + "[quay.io/site/*]",
			"kubelet-verify", "1 images of the lock, such as docker.io/library/nginx@"},
		{"a digest", configuration + policy + "NeverVerifyAllowlistedImages" + list + "[quay.io/site/app@" + index +
			", quay.io/site/*, docker.io/library/nginx]", "kubelet-start", "has a tag or a digest"},
		{"a list with another policy", configuration + list + all, "kubelet-start", "NeverVerifyAllowlistedImages"},
		{"flag of an API server", "kind: Pod\nspec: {containers: [{image: quay.io/site/app@" + index +
			", command: [kube-apiserver, '--enable-admission-plugins=NodeRestriction,AlwaysPullImages']}]}",
			"always-pull-images", "Failed to pull image"},
		{"of kubeadm", "kind: ClusterConfiguration\napiVersion: kubeadm.k8s.io/v1beta4\napiServer: {extraArgs: " +
			"[{name: enable-admission-plugins, value: AlwaysPullImages}]}", "always-pull-images", "leave it out"},
		{"switched off", "kind: Pod\nspec: {containers: [{image: quay.io/site/app@" + index +
			", command: [kube-apiserver, '--disable-admission-plugins=AlwaysPullImages']}]}", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			findings := check(t, locked, c.object)
			if rules(findings) != c.rules || c.text != "" && !strings.Contains(findings[0].String(), c.text) {
				t.Errorf("got %v, want the rules %q with %q", findings, c.rules, c.text)
			}
		})
	}
}
