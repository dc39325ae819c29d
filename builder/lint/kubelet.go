package lint

import (
	"cmp"
	"slices"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/runtime/kubelet"
)

// kubelet checks the configuration of a kubelet: whether it starts with it, and whether pods may then use images
// of stores without a registry (KEP-2535).
func (l *linter) kubelet(k source.KubeletPolicy) {
	const list = "preloadedImagesVerificationAllowlist"
	c := kubelet.Config{Policy: kubelet.Policy(k.Policy.Text)}
	for _, allowed := range k.Allowed {
		c.Allowed = append(c.Allowed, allowed.Text)
		if err := kubelet.CheckPattern(allowed.Text); err != nil {
			l.add(allowed, "kubelet-start", "write registry/path or registry/path/*",
				"the kubelet does not start: %s: %v", list, err)
		}
	}
	var images []string
	for img := range l.store.pins {
		images = append(images, img.String())
	}
	slices.Sort(images)
	const cure = "write NeverVerifyPreloadedImages, or what kubelet-allowlist.conf of the appliance has"
	switch refused := slices.DeleteFunc(images, func(img string) bool { return !c.Verifies(img, false) }); {
	case len(k.Allowed) > 0 && c.Policy != kubelet.PolicyAllowlist:
		l.add(cmp.Or(k.Policy, k.Allowed[0]), "kubelet-start", "write "+string(kubelet.PolicyAllowlist),
			"the kubelet does not start: %s goes only with the policy %s", list, kubelet.PolicyAllowlist)
	case c.Policy == kubelet.PolicyAlways:
		l.add(k.Policy, "kubelet-verify", cure,
			"with %s the kubelet asks a registry before a pod may use an image of a store%s", c.Policy, offline("IMAGE"))
	case len(refused) > 0:
		l.add(k.Policy, "kubelet-verify", cure, "%s lacks the repositories of %d images of the lock, such as %s%s", list,
			len(refused), refused[0], offline(refused[0]))
	}
}
