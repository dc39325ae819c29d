package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/distribution/reference"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ConfigFiles are the configuration files of OpenShift and of kubeadm.
var ConfigFiles = []string{"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml"}

// Config is what the kubelet's configuration says about images.
type Config struct {
	// File that it was read from; "" if there is none.
	File string
	// GCPercent is the used share of the image file system, in percent, at which the kubelet starts to
	// remove images; 100 means never. GCSet reports that the file sets it.
	GCPercent int
	GCSet     bool
	// Policy of verification, and Allowed, the repositories that PolicyAllowlist does not verify.
	Policy  Policy
	Allowed []string
}

// Policy is for which images that are on the node the kubelet asks the registry whether the pod's
// credentials are good: KEP-2535, and pkg/kubelet/images/pullmanager/image_pull_policies.go in
// Kubernetes, since 1.35.
type Policy string

// Policies. With PolicyPreloaded, the default, the kubelet verifies images that it has pulled itself.
const (
	PolicyNever     Policy = "NeverVerify"
	PolicyPreloaded Policy = "NeverVerifyPreloadedImages"
	PolicyAllowlist Policy = "NeverVerifyAllowlistedImages"
	PolicyAlways    Policy = "AlwaysVerify"
)

// defaultThreshold is the kubelet's default: SetDefaults_KubeletConfiguration in
// pkg/kubelet/apis/config/v1beta1/defaults.go.
const defaultThreshold = 85

// ReadConfig reads the first of the files that exists. If it cannot be read, the defaults are
// returned with the error.
func ReadConfig(files ...string) (Config, error) {
	c := Config{GCPercent: defaultThreshold, Policy: PolicyPreloaded}
	for _, file := range files {
		content, err := input.Config(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return c, err
		}
		var config struct {
			Percent *int     `yaml:"imageGCHighThresholdPercent"`
			Policy  Policy   `yaml:"imagePullCredentialsVerificationPolicy"`
			Allowed []string `yaml:"preloadedImagesVerificationAllowlist"`
		}
		if err := yaml.Unmarshal(content, &config); err != nil {
			return c, fmt.Errorf("kubelet configuration %s: %w", file, err)
		}
		c.File, c.Allowed = file, config.Allowed
		if config.Percent != nil {
			c.GCPercent, c.GCSet = *config.Percent, true
		}
		if config.Policy != "" {
			c.Policy = config.Policy
		}
		break
	}
	return c, nil
}

// Verifies reports whether the kubelet asks the registry before a pod may use an image that is on the
// node. recorded means that the kubelet has a record of a pull.
func (c Config) Verifies(image string, recorded bool) bool {
	switch c.Policy {
	case PolicyNever:
		return false
	case PolicyAllowlist:
		repository := image
		if named, err := reference.ParseNormalizedNamed(image); err == nil {
			repository = named.Name()
		}
		return !slices.ContainsFunc(c.Allowed, func(pattern string) bool {
			prefix, ok := strings.CutSuffix(pattern, "*")
			return pattern == repository || ok && strings.HasPrefix(repository, prefix)
		})
	case PolicyAlways:
		return true
	}
	return recorded
}

// CheckPattern returns an error if the kubelet would not start with this pattern in its allowlist:
// ValidateAllowlistImagesPatterns in pkg/kubelet/images/pullmanager/image_pull_policies.go.
func CheckPattern(pattern string) error {
	prefix, wildcard := strings.CutSuffix(pattern, "/*")
	named, err := reference.Parse(prefix)
	switch {
	case prefix == "" || strings.ContainsAny(prefix, "* \t\n"):
		return fmt.Errorf("%q is neither a repository nor a prefix that ends with /*", pattern)
	case wildcard: // the kubelet compares it as a text
		return nil
	case err != nil:
		return fmt.Errorf("%q is not a repository: %w", pattern, err)
	}
	if n, ok := named.(reference.Named); !ok || !reference.IsNameOnly(n) {
		return fmt.Errorf("%s has a tag or a digest", pattern)
	}
	return nil
}

// Allowlist is a configuration of the kubelet that admits all images of a lock: an example of a file in the
// folder of its flag --config-dir.
func Allowlist(lock pinset.Lock) []byte {
	repositories := map[string]bool{}
	for _, img := range lock.Images {
		for _, name := range append(img.Tags, img.Pin) {
			if ref, _, err := pinset.Expand(name); err == nil {
				repositories[ref.Repository] = true
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Written by pinbox: for a kubelet, from 1.35 on, that verifies images which are on the node.
# With its default policy, NeverVerifyPreloadedImages, it needs nothing. A list in a later file
# replaces this one.
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
imagePullCredentialsVerificationPolicy: %s
preloadedImagesVerificationAllowlist:
`, PolicyAllowlist)
	for _, repository := range slices.Sorted(maps.Keys(repositories)) {
		fmt.Fprintf(&b, "- %s\n", repository)
	}
	return []byte(b.String())
}

// Recorded returns the images that the kubelet verifies if it has a record of a pull.
func (c Config) Recorded(names map[string]string) map[string]string {
	recorded := maps.Clone(names)
	maps.DeleteFunc(recorded, func(name, _ string) bool { return !c.Verifies(name, true) })
	return recorded
}

// NotAdmitted returns the images that no pod may use without their registry, although the kubelet has
// not pulled them.
func (c Config) NotAdmitted(names map[string]string) (images []string) {
	for name := range names {
		if c.Verifies(name, false) {
			images = append(images, name)
		}
	}
	slices.Sort(images)
	return images
}
