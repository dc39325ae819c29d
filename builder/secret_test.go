package builder_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	criapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
)

// A node pulls with the pull secret of its configuration.
func TestNodePullsWithItsPullSecret(t *testing.T) {
	t.Parallel()
	program, err := os.ReadFile(fixtures.Program(t, "github.com/pinbox/pinbox/fixtures/program"))
	if err != nil {
		t.Fatal(err)
	}
	open := true
	registry, err := sample.Serve(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if _, password, _ := r.BasicAuth(); !open && password != "secret" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { registry.Close() })
	pins, err := registry.Fill(t.Context(), program)
	if err != nil {
		t.Fatal(err)
	}
	o := options(t, sample.Set("worker", pins.Pause))
	o.Appliance.Spec.Node.PullSecret = filepath.Join(t.TempDir(), "pull-secret.json")
	if err := os.WriteFile(o.Appliance.Spec.Node.PullSecret, fmt.Appendf(nil, `{"auths":{%q:{"auth":"bWU6c2VjcmV0"}}}`,
		registry.Host), 0o600); err != nil {
		t.Fatal(err)
	}
	n := appliance.Boot(t, o, pins.Pause)
	open = false
	if err := os.WriteFile(n.Etc("crio.conf.d/20-plain-http"),
		fmt.Appendf(nil, "[crio.image]\ninsecure_registries = [%q]\n", registry.Host), 0o644); err != nil {
		t.Fatal(err)
	}
	n.Run("mkdir", "-p", "/var/lib/kubelet") // the path on a node
	n.Run("cp", filepath.Join(n.Root, "var/lib/kubelet/config.json"), "/var/lib/kubelet/config.json")
	n.Start()
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: pins.Docker}}); err != nil {
		t.Errorf("got %v with the pull secret, want no error", err)
	}
	n.Run("rm", "/var/lib/kubelet/config.json")
	if _, err := n.Images().PullImage(t.Context(),
		&criapi.PullImageRequest{Image: &criapi.ImageSpec{Image: pins.Mixed}}); err == nil {
		t.Error("got no error without the pull secret, want one")
	}
}
