package runtime_test

import (
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures/fakecri"
	"github.com/pinbox/pinbox/storage/pinset"
)

// A CRI-O before 1.36 does not list the OCI artifacts of a store, and the status says why.
func TestArtifactsOfAStore(t *testing.T) {
	for release, want := range map[string]bool{
		"1.34.0": true, "1.35.6": true, "1.36.3": false, "1.40.0": false, "2.0.0": false, "unknown": false,
	} {
		t.Run(release, func(t *testing.T) {
			node := &volumeNode{fakeNode: &fakeNode{server: &fakecri.Server{Release: release}}}
			r := newReconciler(t, node.fakeNode, 1)
			node.lock = pinset.Lock{Platform: pinset.Platform("linux/" + goruntime.GOARCH), Artifacts: []pinset.LockedArtifact{{
				Pin: node.sets[0].Images[0].String(),
			}}}
			of(r).conf.Disk = node
			s, err := r.Status(t.Context(), false)
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(s.Errors, "\n")
			if got := strings.Contains(text, "CRI-O reads no OCI artifacts of stores before 1.36"); got != want {
				t.Errorf("got the errors %q, want one of the artifact: %v", text, want)
			}
		})
	}
}
