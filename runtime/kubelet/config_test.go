package kubelet_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/kubelet"
)

func TestGCThreshold(t *testing.T) {
	file := func(content string) string {
		path := filepath.Join(t.TempDir(), "kubelet.conf")
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	said := file("kind: KubeletConfiguration\nimageGCHighThresholdPercent: 70\n")
	silent, json := file("kind: KubeletConfiguration\n"),
		file(`{"kind":"KubeletConfiguration","imageGCHighThresholdPercent":60}`)
	for name, test := range map[string]struct {
		files   []string
		percent int
		file    string
	}{
		"no kubelet":       {[]string{"/no/such/file"}, 85, ""},
		"it says so":       {[]string{"/no/such/file", said}, 70, said},
		"in JSON":          {[]string{json}, 60, json},
		"it says nothing":  {[]string{silent, said}, 85, ""},
		"the first counts": {[]string{json, said}, 60, json},
	} {
		percent, by, err := kubelet.GCThreshold(test.files...)
		if percent != test.percent || by != test.file || err != nil {
			t.Errorf("%s: %d, %q, %v", name, percent, by, err)
		}
	}
	broken := file("kind: [")
	if _, _, err := kubelet.GCThreshold(broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("broken: %v", err)
	}
}
