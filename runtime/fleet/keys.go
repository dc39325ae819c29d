package fleet

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/signature"
)

// ErrOtherNode means that a report is signed by a key of other nodes.
var ErrOtherNode = fault.New(fault.Damaged, "the report is signed by a key of other nodes",
	"find out who made it; the files in the folder of --key are named after the nodes whose keys they have")

// Keys are public keys, one of which must have signed each file of reports. None means that no signature is required.
type Keys []NodeKeys

// NodeKeys are those of some nodes.
type NodeKeys struct {
	// Nodes is a pattern of their names: path.Match.
	Nodes string
	Keys  signature.Keys
}

// ReadKeys reads a file of keys of all nodes; or a folder, whose files NODES.pub or NODES.pem have the keys of the
// nodes whose names match NODES, as ship-*.pub: so that no site can report for another one.
func ReadKeys(name string) (all Keys, err error) {
	fi, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", name, signature.ErrKey, err)
	}
	if !fi.IsDir() {
		keys, err := signature.ReadKeys(name)
		return Keys{{"*", keys}}, err
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		nodes := strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".pub"), ".pem")
		if nodes == e.Name() {
			continue
		}
		if _, err := path.Match(nodes, ""); err != nil {
			return nil, fmt.Errorf("%s: %w: its name is no pattern of nodes", filepath.Join(name, e.Name()), signature.ErrKey)
		}
		keys, err := signature.ReadKeys(filepath.Join(name, e.Name()))
		if err != nil {
			return nil, err
		}
		all = append(all, NodeKeys{nodes, keys})
	}
	if len(all) == 0 { // without an error no signature would be required
		return nil, fmt.Errorf("%s: %w: no file NODES.pub or NODES.pem is there", name, signature.ErrKey)
	}
	return all, nil
}

// verify returns the patterns of the nodes for which a content may speak: those of all keys that have signed it.
func (k Keys) verify(content, sum []byte) (nodes []string, err error) {
	var errs []error
	for _, of := range k {
		if err := of.Keys.Verify(content, sum); err != nil {
			errs = append(errs, err)
			continue
		}
		nodes = append(nodes, of.Nodes)
	}
	if len(nodes) == 0 {
		return nil, errs[0]
	}
	return nodes, nil
}

// speaksFor returns an ErrOtherNode unless the name of a node matches one of the patterns.
func speaksFor(name string, nodes []string) error {
	matches := func(pattern string) bool {
		ok, err := path.Match(pattern, name)
		return ok && err == nil
	}
	if slices.ContainsFunc(nodes, matches) {
		return nil
	}
	return fmt.Errorf("%w: it is of %s, and the key of %s", ErrOtherNode, name, strings.Join(nodes, ", "))
}
