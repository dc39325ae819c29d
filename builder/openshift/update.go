package openshift

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// SignaturesFile is the ConfigMap with the signatures of releases.
const SignaturesFile = "release-signatures.yaml"

// Release is a release of OpenShift.
type Release struct {
	Image   pinset.Image
	Version string
	// Signatures are the messages of OpenPGP that claim to be for its digest. They need not have been verified.
	Signatures [][]byte
}

// Sign adds those of the signatures of an image that are for the release.
func (r *Release) Sign(img pinset.Image, signatures [][]byte) {
	for _, s := range signatures {
		claim, err := storage.UntrustedClaim(s)
		known := slices.ContainsFunc(r.Signatures, func(other []byte) bool { return bytes.Equal(s, other) })
		if err == nil && claim.OfOpenPGP() == nil && !known && img.Digest == r.Image.Digest && claim.Digest == img.Digest {
			r.Signatures = append(r.Signatures, s)
		}
	}
}

// Signatures is the ConfigMap in which the cluster version operator looks for signatures of releases when it reaches
// no server of them: pkg/verify/store/configmap of github.com/openshift/library-go. It is nil if there are none.
func Signatures(releases []Release) ([]byte, error) {
	data := map[string]string{}
	for _, r := range releases {
		for n, signature := range r.Signatures {
			key := fmt.Sprintf("%s-%d", strings.Replace(r.Image.Digest.String(), ":", "-", 1), n+1)
			data[key] = base64.StdEncoding.EncodeToString(signature)
		}
	}
	if len(data) == 0 {
		return nil, nil
	}
	return object(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "binaryData": data,
		"metadata": map[string]any{
			"name": "pinbox-release-signatures", "namespace": "openshift-config-managed",
			"labels": map[string]string{"release.openshift.io/verification-signatures": ""},
		},
	})
}

// Update are the commands that update a cluster to a release, once its nodes have the store and the sets are applied;
// of several releases, those that make it accept each. The digest needs no update graph.
func Update(dir string, releases []Release) (all []string) {
	if slices.ContainsFunc(releases, func(r Release) bool { return len(r.Signatures) > 0 }) {
		all = append(all, "oc apply"+files(dir, SignaturesFile))
	}
	if len(releases) == 1 {
		all = append(all, "oc adm upgrade --allow-explicit-upgrade --to-image "+quoted(releases[0].Image.String()))
	}
	return all
}

// Requested is a test of a shell: whether a cluster was told already to update to the release that Update names; "" if
// Update tells it nothing.
func Requested(releases []Release) string {
	if len(releases) != 1 {
		return ""
	}
	return `[ "$(oc get clusterversion version -o jsonpath='{.spec.desiredUpdate.image}')" = ` +
		quoted(releases[0].Image.String()) + " ]"
}

// Unsigned are warnings of releases that a cluster refuses.
func Unsigned(releases []Release) (warnings []string) {
	for _, r := range releases {
		if len(r.Signatures) == 0 {
			warnings = append(warnings, fmt.Sprintf("release %s has no signature, and without a link to mirror.openshift.com "+
				"a cluster does not update to it: spec.sources.release.signatures names one", r.Version))
		}
	}
	return warnings
}
