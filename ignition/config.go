package ignition

import (
	"bytes"
	"fmt"
	"slices"

	"golang.org/x/crypto/ssh"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// What can be wrong with a piece of Butane.
var (
	ErrButane = fault.New(fault.Input, "not valid Butane",
		"`butane --strict` shows the line")
	ErrConflict = fault.New(fault.Input, "replaces what pinbox writes",
		"remove it from the Butane config; fields of the appliance file change what pinbox writes")
)

// Config is the input of the configuration of a node: what it must hold, and what is only in Ignition.
type Config struct {
	provision.Node
	// SSHKeys of the user core.
	SSHKeys []string
	// Snippets of Butane to merge, in this order; later ones win.
	Snippets []Snippet
}

// Snippet is a piece of Butane.
type Snippet struct {
	// Name is the file that it was read from, for errors.
	Name    string
	Content []byte
	// Dir is the folder of the local files that it may embed; "" for none.
	Dir string
}

// Validate returns an error if a node could not use the configuration. It does not check the sets.
func (c Config) Validate() error {
	if err := CheckSSHKeys(c.SSHKeys); err != nil {
		return err
	}
	return c.Node.Validate()
}

// CheckSSHKeys returns an error if one of the keys is not as in authorized_keys.
func CheckSSHKeys(keys []string) error {
	for i, key := range keys {
		if _, _, _, _, err := ssh.ParseAuthorizedKey([]byte(key)); err != nil {
			return fmt.Errorf("SSH key %d, %q, is not a line of authorized_keys", i+1, key)
		}
	}
	return nil
}

// HasKeys reports whether a snippet names the folder of keys.
func (c Config) HasKeys() bool {
	return slices.ContainsFunc(c.Snippets, func(s Snippet) bool {
		return bytes.Contains(s.Content, []byte(layout.KeysDir))
	})
}
