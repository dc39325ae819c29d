package node

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/runtime/stores"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
)

// hidden returns the slots with a store that the CRI-O which runs does not have, whatever its files say. The error is
// a crio.ErrWithoutStores with the reason and the cure; also if CRI-O will not have a store once it starts again.
// While it does not answer, none is hidden: the pass reports that.
func (n *Node) hidden() (slots []string, err error) {
	if n.crio.Running == nil {
		return nil, nil
	}
	all, running := n.slotsIn(n.crio.Running.ImageStores())
	_, named := n.slotsIn(n.crio.Stores())
	var unnamed []string
	for _, slot := range all {
		if _, err := os.Stat(filepath.Join(slot, layout.ImagesFile)); err != nil {
			continue // no store is mounted
		}
		if !slices.Contains(running, slot) {
			slots = append(slots, slot)
		}
		if !slices.Contains(named, slot) {
			unnamed = append(unnamed, slot)
		}
	}
	const cure = "write " + crio.StoresPath + " again (`pinbox-node setup` does), and restart CRI-O"
	switch {
	case len(slots) > 0 && len(unnamed) > 0:
		return slots, fmt.Errorf("%w: no file of %s names %s: %s", crio.ErrWithoutStores, n.conf.CRIODir, unnamed[0], cure)
	case len(unnamed) > 0:
		return nil, fmt.Errorf("%w once it starts again: no file of %s names %s: %s", crio.ErrWithoutStores, n.conf.CRIODir,
			unnamed[0], cure)
	case len(slots) == 0:
		return nil, nil
	}
	why := []string{"it has not been restarted since its files name them: restart CRI-O"}
	if replaced := n.crio.Service.Replaced(n.conf.CRIODir); len(replaced) > 0 {
		why = replaced
	}
	return slots, fmt.Errorf("%w: it does not have %s, where one is mounted: %s", crio.ErrWithoutStores, slots[0],
		strings.Join(why, "; "))
}

// checkPolicy returns an ErrPolicy if a signature policy demands signatures that images of stores do not have.
func checkPolicy(policyFile string, roots []string) error {
	content, err := input.Config(policyFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // CRI-O does not start
	}
	if err != nil {
		return err
	}
	policy, err := crio.ReadPolicy(content)
	if err != nil {
		return fmt.Errorf("%s: %w", policyFile, err)
	}
	if !policy.Demands() {
		return nil
	}
	unsigned, err := stores.Unsigned(roots...)
	var refused []string
	demands := ""
	for _, img := range unsigned {
		for _, name := range img.Names {
			if demand := policy.Demand(name); demand != "" {
				refused, demands = append(refused, name), demand
				break
			}
		}
	}
	if len(refused) > 0 {
		err = errors.Join(err, fmt.Errorf("%w: %s has %s for %d images without a signature, such as %s: "+
			"no container of them starts", crio.ErrPolicy, policyFile, demands, len(refused), refused[0]))
	}
	return err
}
