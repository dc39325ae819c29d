package ignition

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// What can be wrong with a piece of Butane.
var (
	ErrButane = fault.New(fault.Input, "not valid Butane",
		"`butane --strict` shows the line")
	ErrVersion = fault.New(fault.Input, "this version of Butane is not known",
		"name one that is known in the file, or use a newer pinbox")
	ErrConflict = fault.New(fault.Input, "replaces what pinbox writes",
		"remove it from the Butane file or the MachineConfig; fields of the appliance file change what pinbox writes")
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

	config []byte // translated; nil before Config.Translate
}

func (s Snippet) translate() ([]byte, error) {
	if s.config != nil {
		return s.config, nil
	}
	return translate(s.Content, s.Dir)
}

// Translate returns the configuration with its snippets translated, once for all that is made of it. A snippet that
// has a file or unit of pinbox, in whatever config in it, is an ErrConflict: a merged configuration overrides the one
// that it is merged into. Notes name the configurations that the snippets fetch when the node boots.
func (c Config) Translate() (_ Config, notes []string, err error) {
	c.Snippets = slices.Clone(c.Snippets)
	for i := range c.Snippets {
		s := &c.Snippets[i]
		if s.config, err = s.translate(); err != nil {
			return c, nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		there, err := readTree(s.config)
		if err != nil {
			return c, nil, fmt.Errorf("%s: %w: %w", s.Name, ErrButane, err)
		}
		var conflicts []string
		for _, found := range newTree().conflicts(there, c.Names()) {
			conflicts = append(conflicts, found.what+": pinbox has "+found.ours)
		}
		if len(conflicts) > 0 {
			return c, nil, fmt.Errorf("%s: %w: %s", s.Name, ErrConflict, strings.Join(conflicts, "; "))
		}
		for _, source := range there.configs {
			notes = append(notes,
				fmt.Sprintf("%s: the node fetches the config %s when it boots, and waits for it; if that has a "+
					"file or unit of pinbox, pinbox's is replaced", s.Name, source))
		}
	}
	return c, notes, nil
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
