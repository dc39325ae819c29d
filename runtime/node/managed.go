package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/runtime"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// maxRendered is the most that is read of a MachineConfig, in bytes: MaxMachineConfigSize in pkg/controller/common of
// the Machine Config Operator, and as much again.
const maxRendered = 3 << 20

// releaseAnnotation has the OpenShift release, as 4.18.3: ReleaseImageVersionAnnotationKey in pkg/controller/common of
// the Machine Config Operator.
const releaseAnnotation = "machineconfiguration.openshift.io/release-image-version"

// renderedName is the name of the MachineConfig that the operator renders for a pool: pkg/controller/common/helpers.go.
var renderedName = regexp.MustCompile(`^rendered-(.+)-[0-9a-f]{32}$`)

// rendered is the MachineConfig that the operator's daemon has applied: pkg/daemon/daemon.go, currentConfigPath.
type rendered struct {
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
}

// readRendered reads the MachineConfig of the node beside the folder of CRI-O's configuration; managed is false if the
// operator does not manage it. A file that cannot be read is one without metadata: it is the operator's.
func readRendered(crioDir string) (r rendered, managed bool) {
	name := filepath.Join(filepath.Dir(filepath.Clean(crioDir)), "machine-config-daemon", "currentconfig")
	f, err := input.Open(name)
	if err != nil {
		return r, false
	}
	defer f.Close()
	if json.NewDecoder(io.LimitReader(f, maxRendered)).Decode(&r) != nil {
		return rendered{}, true
	}
	return r, true
}

// pools are those whose sets the operator gives to the node: a pool of a user's own also has the sets of the workers.
// Nil means that they are not known.
func (r rendered) pools() []string {
	const worker, master, arbiter = "worker", "master", "arbiter"
	m := renderedName.FindStringSubmatch(r.Metadata.Name)
	switch {
	case m == nil:
		return nil
	case m[1] == worker, m[1] == master, m[1] == arbiter:
		return m[1:]
	}
	return []string{m[1], worker}
}

// pins reports whether the operator of the release pins images by default: since 4.19.
func (r rendered) pins() bool {
	parts := strings.SplitN(r.Metadata.Annotations[releaseAnnotation], ".", 3)
	if len(parts) < 2 {
		return true
	}
	major, majorErr := strconv.Atoi(parts[0])
	minor, minorErr := strconv.Atoi(parts[1])
	return majorErr != nil || minorErr != nil || major > 4 || major == 4 && minor >= 19
}

// owner returns who writes the pins.
func (n *Node) owner() runtime.Owner {
	switch {
	case n.conf.Owner != "" && n.conf.Owner != "auto":
		return runtime.Owner(n.conf.Owner)
	case n.conf.Pins == layout.PinsNode && (!n.managed || !n.rendered.pins()):
		return runtime.Pinbox
	case n.managed, n.conf.Pins == layout.PinsOperator:
		return runtime.MCO
	}
	return runtime.Pinbox
}

// poolNames are the pools of the node: those of the settings, or those that the operator has.
func (n *Node) poolNames() []string {
	if len(n.conf.Pools) > 0 {
		return n.conf.Pools
	}
	return n.rendered.pools()
}

// ownSets are the sets in the appliance's own store. They count where a MachineConfig made the node, which has no file
// of a set since those change, and no operator pins.
func (n *Node) ownSets() ([]pinset.Set, error) {
	if n.confErr != nil || n.conf.Pins != layout.PinsNode {
		return nil, n.confErr
	}
	slot := filepath.Join(n.stateDir(), "stores", "0")
	texts, err := layout.Open(os.DirFS(slot)).Sets()
	if err == nil && len(texts) == 0 {
		err = fmt.Errorf("%w, and no store of the appliance with some is mounted at %s", runtime.ErrNoSets, slot)
	}
	var sets []pinset.Set
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		decoded, _, decodeErr := pinset.DecodeSets(strings.NewReader(texts[name]), name)
		sets, err = append(sets, decoded...), errors.Join(err, decodeErr)
	}
	return sets, err
}
