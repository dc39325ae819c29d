package cluster

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/pinset"
)

const (
	// KnownFile is the name of the document in the folder of the state.
	KnownFile = "cluster.json"
	// KnownVersion is the version of the format of Known.
	KnownVersion = 1
	// MaxSets is the most sets that a node takes, those of other pools, too: ten times maxItems of PinnedImageSetList in
	// machineconfiguration/v1 of github.com/openshift/api, which has the next two.
	MaxSets = 5000
	// maxImages is the most images in a set, and maxImageBytes the length of the longest name of one, in bytes.
	maxImages, maxImageBytes = 500, 447
	// MaxKnownBytes is the size of the largest document, in bytes: 100 sets, the most that a MachineConfigPool has, of
	// 500 images with names of 330 bytes. etcd has 8 GiB at most for all of a cluster.
	MaxKnownBytes = 16 << 20
)

// DecodeKnown reads a document. Unknown fields, other versions, and values that nothing writes are errors.
func DecodeKnown(r io.Reader) (Known, error) {
	var k Known
	limited := &io.LimitedReader{R: r, N: MaxKnownBytes + 1}
	err := pinset.Decode(limited, KnownVersion, &k)
	switch {
	case limited.N == 0:
		err = errTooLarge
	case err == nil:
		err = k.check()
	}
	if err != nil {
		return Known{}, fmt.Errorf("sets of the cluster: %w", err)
	}
	return k, nil
}

var errTooLarge = fmt.Errorf("more than %d MiB", MaxKnownBytes>>20)

// Read reads the document; the error is fs.ErrNotExist if the node follows no cluster.
func Read(file string) (Known, error) {
	f, err := input.Open(file)
	if err != nil {
		return Known{}, err
	}
	defer f.Close()
	k, err := DecodeKnown(f)
	if err != nil {
		return Known{}, fmt.Errorf("%s: %w", file, err)
	}
	return k, nil
}

// write replaces the document.
func (k *Known) write(file string) error {
	content, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if len(content) >= MaxKnownBytes {
		return fmt.Errorf("%s: %w", file, errTooLarge)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	_, err = atomicfile.Write(file, append(content, '\n'), 0o644)
	return err
}

func (k *Known) check() error {
	if !slices.Contains([]State{Current, Unreachable, NotServed}, k.State) {
		return fmt.Errorf("state %q: unknown", k.State)
	}
	for _, text := range slices.Concat([]string{k.ResourceVersion}, k.Roles, k.Refused) {
		if !pinset.Printable(text) {
			return fmt.Errorf("%q: control characters", text)
		}
	}
	if len(k.Operator) > MaxSets {
		return fmt.Errorf("%d sets of the operator, more than %d", len(k.Operator), MaxSets)
	}
	for _, o := range k.Operator {
		if !pinset.ValidName(o.Name) {
			return fmt.Errorf("operator: name %q: not an RFC 1123 subdomain", o.Name)
		}
	}
	if len(k.Sets) > MaxSets {
		return fmt.Errorf("%d sets, more than %d", len(k.Sets), MaxSets)
	}
	for i, s := range k.Sets {
		if err := s.check(); err != nil {
			return fmt.Errorf("sets[%d]: %w", i, err)
		}
		if i > 0 && k.Sets[i-1].Name >= s.Name {
			return fmt.Errorf("sets[%d]: name %q: not sorted", i, s.Name)
		}
	}
	return nil
}

// check refuses what no set of a cluster has, and names that would change a terminal.
func (s Set) check() error {
	switch {
	case !pinset.ValidName(s.Name):
		return fmt.Errorf("name %q: not an RFC 1123 subdomain", s.Name)
	case s.Generation < 1:
		return fmt.Errorf("generation %d: less than 1", s.Generation)
	case !pinset.Printable(s.UID + s.ResourceVersion):
		return fmt.Errorf("uid %q, resourceVersion %q: control characters", s.UID, s.ResourceVersion)
	case s.Role != nil && !pinset.Printable(*s.Role):
		return fmt.Errorf("role %q: control characters", *s.Role)
	}
	if err := pinset.CheckStore(s.Store); err != nil {
		return err
	}
	if len(s.Images) > maxImages {
		return fmt.Errorf("%d images, more than %d", len(s.Images), maxImages)
	}
	for i, img := range s.Images {
		if len(img) > maxImageBytes || !pinset.Printable(img) {
			return fmt.Errorf("images[%d]: %d bytes, or control characters", i, len(img))
		}
	}
	return nil
}
