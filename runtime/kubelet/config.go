package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"go.yaml.in/yaml/v3"
)

// ConfigFiles are the configuration files of OpenShift and of kubeadm.
var ConfigFiles = []string{"/etc/kubernetes/kubelet.conf", "/var/lib/kubelet/config.yaml"}

// defaultThreshold is the kubelet's default: SetDefaults_KubeletConfiguration in
// pkg/kubelet/apis/config/v1beta1/defaults.go.
const defaultThreshold = 85

// GCThreshold returns the used share of the image file system, in percent, at which the kubelet
// starts to remove images, and the file that sets it, "" for the kubelet's default. 100 means
// never. The first of the files that exists counts; if it cannot be read, the default is returned
// with the error.
func GCThreshold(files ...string) (percent int, file string, err error) {
	for _, file := range files {
		content, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return defaultThreshold, "", err
		}
		var config struct {
			Percent *int `yaml:"imageGCHighThresholdPercent"`
		}
		if err := yaml.Unmarshal(content, &config); err != nil {
			return defaultThreshold, "", fmt.Errorf("kubelet configuration %s: %w", file, err)
		}
		if config.Percent != nil {
			return *config.Percent, file, nil
		}
		break
	}
	return defaultThreshold, "", nil
}
