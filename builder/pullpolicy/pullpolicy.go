package pullpolicy

import (
	_ "embed" // of the policies
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/pinset"
)

var (
	//go:embed mutate.yaml
	mutate []byte
	//go:embed warn.yaml
	warn []byte
)

// namesInMap is the number of names in a ConfigMap, at most 384 bytes each. kubectl apply keeps the whole object in
// annotations, of which an object has 256 KiB at most, and a policy may cost 1,000,000 for each of its expressions,
// where the search for an image costs 1 for each name.
const namesInMap = 500

// Manifests returns, by their file names, the names of a lock's images for the policies, and the policies: one that
// changes pods, and one that warns only.
func Manifests(lock pinset.Lock) map[string][]byte {
	return map[string][]byte{
		"names.yaml":  configMaps(lock.Name, names(lock)),
		"mutate.yaml": mutate,
		"warn.yaml":   warn,
	}
}

// names are the names by tags that pods may give to the images, sorted.
func names(lock pinset.Lock) []string {
	var all []string
	for _, img := range lock.Images {
		for _, tag := range img.Tags {
			all = append(all, spellings(tag)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// spellings are those of a full name that CRI-O takes for it, whatever the configuration of the node: pinset.Expand.
func spellings(name string) []string {
	path, ok := strings.CutPrefix(name, "docker.io/")
	if !ok {
		return []string{name}
	}
	all := []string{name, "index.docker.io/" + path}
	if official, ok := strings.CutPrefix(path, "library/"); ok && !strings.Contains(official, "/") {
		all = append(all, "docker.io/"+official, "index.docker.io/"+official)
	}
	return all
}

// configMaps renders the names. Those of another appliance stay beside them.
func configMaps(appliance string, names []string) []byte {
	prefix := "pinbox-names-"
	if appliance != "" {
		prefix += appliance + "-"
	}
	if !pinset.ValidName(prefix + "9999") {
		prefix = "pinbox-names-" + digest.FromString(appliance).Encoded()[:16] + "-"
	}
	var b strings.Builder
	b.WriteString("# Written by pinbox: names of images in the store, for mutate.yaml and warn.yaml.\n")
	for n := 1; n == 1 || len(names) > 0; n++ {
		some := names[:min(namesInMap, len(names))]
		names = names[len(some):]
		if n > 1 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, `apiVersion: v1
kind: ConfigMap
metadata:
  name: %s%d
  namespace: kube-system
  labels:
    pinbox.dev/names: always
data:
  names: |
`, prefix, n)
		for _, name := range some {
			b.WriteString("    " + name + "\n")
		}
	}
	return []byte(b.String())
}
