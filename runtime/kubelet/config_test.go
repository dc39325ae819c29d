package kubelet_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/runtime/kubelet"
	"github.com/pinbox/pinbox/storage/pinset"
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
		set     bool
	}{
		"no kubelet":            {[]string{"/no/such/file"}, 85, "", false},
		"set":                   {[]string{"/no/such/file", set}, 70, set, true},
		"in JSON":               {[]string{json}, 60, json, true},
		"not set":               {[]string{unset, set}, 85, unset, false},
		"the first file counts": {[]string{json, set}, 60, json, true},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := kubelet.ReadConfig(test.files...)
			if c.GCPercent != test.percent || c.File != test.file || c.GCSet != test.set || err != nil {
				t.Errorf("got %+v, %v, want %d of %q", c, err, test.percent, test.file)
			}
		})
	}
	broken := file("kind: [")
	if _, err := kubelet.ReadConfig(broken); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("invalid YAML: got %v, want an error of %s", err, broken)
	}
}

// The kubelet's own: TestValidateAllowlistImagesPatterns in pkg/kubelet/images/pullmanager.
func TestPatterns(t *testing.T) {
	for pattern, valid := range map[string]bool{
		"quay.io/team/app": true, "quay.io/team/*": true, "quay.io:5000/app": true, "quay.io/*": true,
		"quay.io/team/app:1": false, "quay.io/team/app@sha256:" + strings.Repeat("1", 64): false, "quay.io/*/app": false,
		"quay.io/team*": false, "*": false, "/*": false, "": false, " quay.io/app": false,
	} {
		if err := kubelet.CheckPattern(pattern); (err == nil) != valid {
			t.Errorf("%q: got %v, want valid %v", pattern, err, valid)
		}
	}
}

func TestAllowlist(t *testing.T) {
	const digest = "@sha256:345a49928591a96332fde064518ac8db937dd02709010e74161ce66d7e6d4f4b"
	content := kubelet.Allowlist(pinset.Lock{Images: []pinset.LockedImage{
		{Pin: "quay.io/team/b" + digest, Tags: []string{"docker.io/library/b:1"}}, {Pin: "quay.io/team/a" + digest},
		{Pin: "quay.io/team/a" + strings.Replace(digest, "3", "4", 1)},
	}})
	file := filepath.Join(t.TempDir(), "kubelet.conf")
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := kubelet.ReadConfig(file)
	want := []string{"docker.io/library/b", "quay.io/team/a", "quay.io/team/b"}
	if err != nil || c.Policy != kubelet.PolicyAllowlist || !slices.Equal(c.Allowed, want) {
		t.Errorf("got %+v, %v, want %s of %v", c, err, kubelet.PolicyAllowlist, want)
	}
}

// The kubelet's own policies: TestNeverVerifyPreloadedPullPolicy and others in
// pkg/kubelet/images/pullmanager/image_pull_policies_test.go.
func TestPolicies(t *testing.T) {
	const image = "quay.io/team/app@sha256:345a49928591a96332fde064518ac8db937dd02709010e74161ce66d7e6d4f4b"
	for name, test := range map[string]struct {
		config            kubelet.Config
		preloaded, pulled bool
	}{
		"default":                {kubelet.Config{Policy: kubelet.PolicyPreloaded}, false, true},
		"never":                  {kubelet.Config{Policy: kubelet.PolicyNever}, false, false},
		"always":                 {kubelet.Config{Policy: kubelet.PolicyAlways}, true, true},
		"the repository":         {kubelet.Config{Policy: kubelet.PolicyAllowlist, Allowed: []string{"quay.io/team/app"}}, false, false},
		"a prefix":               {kubelet.Config{Policy: kubelet.PolicyAllowlist, Allowed: []string{"quay.io/team/*"}}, false, false},
		"another repository":     {kubelet.Config{Policy: kubelet.PolicyAllowlist, Allowed: []string{"quay.io/team/ap"}}, true, true},
		"the prefix of a name":   {kubelet.Config{Policy: kubelet.PolicyAllowlist, Allowed: []string{"quay.io/te/*"}}, true, true},
		"an empty list of names": {kubelet.Config{Policy: kubelet.PolicyAllowlist}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.config.Verifies(image, false); got != test.preloaded {
				t.Errorf("preloaded: got %v, want %v", got, test.preloaded)
			}
			if got := test.config.Verifies(image, true); got != test.pulled {
				t.Errorf("pulled by the kubelet: got %v, want %v", got, test.pulled)
			}
		})
	}
}
