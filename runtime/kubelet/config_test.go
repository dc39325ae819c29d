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
	set := file("kind: KubeletConfiguration\nimageGCHighThresholdPercent: 70\n")
	unset, json := file("kind: KubeletConfiguration\n"),
		file(`{"kind":"KubeletConfiguration","imageGCHighThresholdPercent":60}`)
	for name, test := range map[string]struct {
		files   []string
		percent int
		file    string
	}{
		"no kubelet":            {[]string{"/no/such/file"}, 85, ""},
		"set":                   {[]string{"/no/such/file", set}, 70, set},
		"in JSON":               {[]string{json}, 60, json},
		"not set":               {[]string{unset, set}, 85, ""},
		"the first file counts": {[]string{json, set}, 60, json},
	} {
		t.Run(name, func(t *testing.T) {
			percent, by, err := kubelet.GCThreshold(test.files...)
			if percent != test.percent || by != test.file || err != nil {
				t.Errorf("got %d, %q, %v, want %d, %q", percent, by, err, test.percent, test.file)
			}
		})
	}
	broken := file("kind: [")
	if _, _, err := kubelet.GCThreshold(broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("invalid YAML: got %v, want an error of %s", err, broken)
	}
}
