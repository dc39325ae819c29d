package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// NodeConfigPath is where the appliance says how its nodes keep stores.
const NodeConfigPath = "/etc/pinbox/node.json"

// DefaultKeepPrevious is how many previous releases a node keeps if nobody says.
const DefaultKeepPrevious = 1

// NodeConfig is what an appliance says of the stores that are attached to its nodes
// later.
type NodeConfig struct {
	// KeepPrevious releases stay for a rollback beside the current one.
	KeepPrevious int `json:"keepPrevious"`
	// SELinuxContext of everything in a store; "" leaves the mount option out.
	SELinuxContext string `json:"selinuxContext,omitempty"`
}

// Validate says what a node could not go by.
func (c NodeConfig) Validate() error {
	if c.KeepPrevious < 0 {
		return fmt.Errorf("keepPrevious is %d; it is 0 or more", c.KeepPrevious)
	}
	return nil
}

// RenderNodeConfig gives the file: equal configurations, equal bytes.
func RenderNodeConfig(c NodeConfig) []byte {
	content, _ := json.MarshalIndent(c, "", "  ") // a number and a text always can
	return append(content, '\n')
}

// ReadNodeConfig reads the file at path; without one, and for what it leaves out, the
// defaults count. Unknown fields are errors.
func ReadNodeConfig(path string) (NodeConfig, error) {
	c := NodeConfig{KeepPrevious: DefaultKeepPrevious}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return NodeConfig{}, err
	}
	dec := json.NewDecoder(bytes.NewReader(content))
	dec.DisallowUnknownFields()
	if err = dec.Decode(&c); err == nil {
		err = c.Validate()
	}
	if err == nil && !errors.Is(dec.Decode(new(any)), io.EOF) {
		err = errors.New("there is more behind the configuration")
	}
	if err != nil {
		return NodeConfig{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
