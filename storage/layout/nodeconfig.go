package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

// NodeConfigPath is the configuration of a node: what it is, and all its settings.
const NodeConfigPath = "/etc/pinbox/node.json"

// NodeConfigVersion is the version of its format.
const NodeConfigVersion = 1

// DefaultKeepPrevious is the KeepPrevious of a node that does not set it.
const DefaultKeepPrevious = 1

// NodeConfig is the content of NodeConfigPath.
type NodeConfig struct {
	// Version is set by Render.
	Version int `json:"version"`
	// ReleaseID is that of the appliance's own store; zero if the node was not installed from one.
	pinset.ReleaseID
	// Store is the digest of the file of that store; "" if it has none.
	Store digest.Digest `json:"store,omitempty"`
	// KeepPrevious is how many releases before the current one stay for a rollback.
	KeepPrevious int `json:"keepPrevious"`
	// SELinuxContext of everything in a store; "" leaves the mount option out.
	SELinuxContext string `json:"selinuxContext,omitempty"`
	// Verity is when stores are mounted by dm-verity; "" means VerityAuto.
	Verity Verity `json:"verity,omitempty"`
	// Signed is whether a store that is attached needs a signature by a key of the node; "" means SignedWithKeys.
	Signed Signed `json:"signed,omitempty"`
	// Program is the pinbox-node in that store; zero if the units do not install it from there, and then none of a
	// later release, either.
	Program pinset.Program `json:"program,omitzero"`
	// Pins is who pins images, on a node of OpenShift; "" on any other.
	Pins Pins `json:"pins,omitempty"`
	// Sets is whether the node is meant to have sets; "" means SetsRequired.
	Sets Sets `json:"sets,omitempty"`
	// ImageVolumes is what the node does about images of image volumes; "" means ImageVolumesReport.
	ImageVolumes ImageVolumes `json:"imageVolumes,omitempty"`
	Service
	Machine
}

// Sets is whether a node is meant to have sets.
type Sets string

// With SetsRequired, a node that has none is not ready, unless they come from an API. With SetsOptional, it is.
const (
	SetsRequired Sets = "required"
	SetsOptional Sets = "optional"
)

// Validate returns an error for another value.
func (s Sets) Validate() error { return oneOf("sets", s, SetsRequired, SetsOptional) }

// Pins is who pins images on a node that OpenShift's Machine Config Operator manages.
type Pins string

// With PinsOperator, the operator does. With PinsNode, pinbox-node does as long as the node has an OpenShift before
// 4.19, whose operator does not.
const (
	PinsOperator Pins = "operator"
	PinsNode     Pins = "node"
)

// Validate returns an error for another value.
func (p Pins) Validate() error { return oneOf("pins", p, PinsOperator, PinsNode) }

// ImageVolumes is what a node does about images that pods use as image volumes, which CRI-O cannot mount
// from a read-only store: containers/storage issue 1864.
type ImageVolumes string

// With ImageVolumesCopy, a node writes the images into CRI-O's own store.
const (
	ImageVolumesReport ImageVolumes = "report"
	ImageVolumesCopy   ImageVolumes = "copy"
)

// Validate returns an error for another value.
func (v ImageVolumes) Validate() error {
	return oneOf("imageVolumes", v, ImageVolumesReport, ImageVolumesCopy)
}

// Verity is when a node mounts stores by dm-verity.
type Verity string

// With VerityAuto, a node uses dm-verity if it has it. With VerityRequire, it mounts no store
// without.
const (
	VerityAuto    Verity = "auto"
	VerityRequire Verity = "require"
	VerityOff     Verity = "off"
)

// Validate returns an error for another value.
func (v Verity) Validate() error { return oneOf("verity", v, VerityAuto, VerityRequire, VerityOff) }

// Signed is when a node attaches only stores with a signature by one of its keys.
type Signed string

// With SignedWithKeys, it does if it has keys. With SignedRequired, a node without keys attaches no store.
const (
	SignedWithKeys Signed = "with-keys"
	SignedRequired Signed = "required"
)

// Validate returns an error for another value.
func (s Signed) Validate() error { return oneOf("signed", s, SignedWithKeys, SignedRequired) }

// oneOf returns an error for the value of a field that is none of these; "" is the default.
func oneOf[T ~string](field string, value T, values ...T) error {
	if value == "" || slices.Contains(values, value) {
		return nil
	}
	last := len(values) - 1
	names := string(values[0])
	for _, v := range values[1:last] {
		names += ", " + string(v)
	}
	return fmt.Errorf("%s is %q; it must be %s or %s", field, value, names, values[last])
}

// atMost returns an error for the value of a field that is less than 0, or too large.
func atMost(field string, value, most int) error {
	if value < 0 || value > most {
		return fmt.Errorf("%s is %d; it must be 0 to %d", field, value, most)
	}
	return nil
}

// Validate returns an error if a node cannot use the configuration.
func (c NodeConfig) Validate() error {
	var errs []error
	if c.KeepPrevious < 0 {
		errs = append(errs, fmt.Errorf("keepPrevious is %d; it must be 0 or more", c.KeepPrevious))
	}
	if !pinset.Printable(c.SELinuxContext) || strings.ContainsAny(c.SELinuxContext, `"\`) {
		errs = append(errs, fmt.Errorf("selinuxContext is %q; it has no quotes, backslashes and control characters",
			c.SELinuxContext))
	}
	if c.Store != "" {
		errs = append(errs, pinset.CheckDigest("store", c.Store))
	}
	if c.Program != (pinset.Program{}) {
		if err := c.Program.Check(); err != nil {
			errs = append(errs, fmt.Errorf("program: %w", err))
		}
	}
	errs = append(errs, c.ReleaseID.Check(), c.Verity.Validate(), c.Signed.Validate(), c.Pins.Validate(),
		c.Sets.Validate(), c.ImageVolumes.Validate(), atMost("parallel", c.Parallel, 1<<10),
		atMost("gcThreshold", c.GCThreshold, 100),
		oneOf("owner", c.Owner, "auto", "pinbox", "mco"))
	return errors.Join(errs...)
}

// Render returns the content of the file: equal configurations, equal bytes.
func (c NodeConfig) Render() []byte {
	c.Version = NodeConfigVersion
	content, _ := json.MarshalIndent(c, "", "  ") // numbers and a string cannot fail
	return append(content, '\n')
}

// ReadNodeConfig reads the file at path. A file or a field that does not exist has the defaults.
// Unknown fields and other versions are errors, and the error names the file.
func ReadNodeConfig(path string) (NodeConfig, error) {
	c := NodeConfig{Version: NodeConfigVersion, KeepPrevious: DefaultKeepPrevious}
	content, err := input.Config(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return NodeConfig{}, err
	}
	if err = pinset.Decode(bytes.NewReader(content), NodeConfigVersion, &c); err == nil {
		err = c.Validate()
	}
	if err != nil {
		return NodeConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
