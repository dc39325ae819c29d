package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/kubelet"
)

const (
	inStore = "quay.io/app@sha256:345a49928591a96332fde064518ac8db937dd02709010e74161ce66d7e6d4f4b"
	id      = "0000000000000000000000000000000000000000000000000000000000000001"
)

var names = map[string]string{inStore: id, "quay.io/app:1": id}

// Files as a kubelet 1.36 wrote them.
var (
	intent = `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"` + inStore + `"}`
	pulled = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1",` +
		`"lastUpdatedTime":"2026-11-01T10:00:00Z","imageRef":"` + id + `"}`
)

// state makes a folder of the kubelet with these files below image_manager.
func state(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, "image_manager", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestBlocking(t *testing.T) {
	for name, test := range map[string]struct {
		file, content, want string // want is "" for none
	}{
		"a pull that has not ended": {"pulling/sha256-1", intent, inStore + " from its next start on"},
		"a tag":                     {"pulling/sha256-1", `{"image":"quay.io/app:1"}`, "quay.io/app:1 from its next start on"},
		"of another image":          {"pulling/sha256-1", `{"image":"quay.io/other:1"}`, ""},
		"a file that is written":    {"pulling/sha256-1.tmp", intent, ""},
		"another file":              {"pulling/README", intent, ""},
		"unknown credentials":       {"pulled/sha256-1", pulled, "quay.io/app:1 now"},
		"an ID with its algorithm":  {"pulled/sha256-1", `{"imageRef":"sha256:` + id + `"}`, "quay.io/app:1 now"},
		"known credentials": {
			"pulled/sha256-1", `{"imageRef":"` + id + `","credentialMapping":{"quay.io/app":{"nodePodsAccessible":true}}}`, "",
		},
		"another image was pulled": {"pulled/sha256-1", `{"imageRef":"` + strings.Repeat("2", 64) + `"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubelet.Blocking(state(t, map[string]string{test.file: test.content}), names)
			if err != nil || len(got) > 1 || (len(got) == 1) != (test.want != "") {
				t.Fatalf("got %v, %v, want %q", got, err, test.want)
			}
			if len(got) == 1 && !strings.Contains(got[0].String(), test.want) {
				t.Errorf("got %s, want %s", got[0], test.want)
			}
		})
	}
	t.Run("no kubelet", func(t *testing.T) {
		if got, err := kubelet.Blocking(t.TempDir(), names); got != nil || err != nil {
			t.Errorf("got %v, %v, want nothing", got, err)
		}
	})
	for name, content := range map[string]string{"no JSON": "{", "too large": strings.Repeat(" ", 1<<20) + pulled} {
		t.Run(name, func(t *testing.T) {
			_, err := kubelet.Blocking(state(t, map[string]string{"pulled/sha256-1": content}), names)
			if err == nil || !strings.Contains(err.Error(), "pulled/sha256-1") {
				t.Errorf("got %v, want an error of the file", err)
			}
		})
	}
}
