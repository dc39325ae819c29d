package verify

import (
	"fmt"
	"io"
	"maps"
	"path"
	"path/filepath"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/storage/input"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// checkProvenance compares the provenance statement of a folder with the sums and the lock.
func checkProvenance(dir string, lock pinset.Lock, sums layout.Sums) error {
	f, err := input.Open(filepath.Join(dir, artifact.ProvenanceFile))
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := readProvenance(f, lock)
	if err != nil {
		return err
	}
	want := map[string]string{}
	_, store := format.Find(sums)
	for _, name := range []string{store, artifact.LockFile, artifact.ISOFile} {
		if sum := sums[name]; sum != "" { // a store that is a folder has none
			want[name] = sum
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if s.Subjects[name] != want[name] {
			return fmt.Errorf("%s is not about %s with the SHA-256 %s", artifact.ProvenanceFile, name, want[name])
		}
	}
	if len(s.Subjects) > len(want) && !inParts(dir, store) { // the other is the ISO of the folder that was split
		return fmt.Errorf("%s is about %d files, want %d", artifact.ProvenanceFile, len(s.Subjects), len(want))
	}
	return nil
}

// checkProvenanceInISO compares the provenance statement on an ISO with its sums and its lock. The statement has the
// names of the folder.
func checkProvenanceInISO(image *iso.Image, lock pinset.Lock, sums layout.Sums) error {
	f, err := image.Find(path.Join(iso.Dir, artifact.ISOProvenance))
	if err != nil {
		return err
	}
	s, err := readProvenance(f.Reader(), lock)
	if err != nil {
		return err
	}
	subjects := slices.Collect(maps.Values(s.Subjects))
	for _, name := range []string{artifact.ISOStore, artifact.ISOLock} {
		if sum := sums[name]; sum != "" && !slices.Contains(subjects, sum) {
			return fmt.Errorf("%s is not about %s with the SHA-256 %s", artifact.ISOProvenance, name, sum)
		}
	}
	return nil
}

// readProvenance reads a statement, and checks that it is about the images of the lock.
func readProvenance(r io.Reader, lock pinset.Lock) (provenance.Statement, error) {
	s, err := provenance.Decode(r)
	if err != nil {
		return s, fmt.Errorf("%s: %w", artifact.ProvenanceFile, err)
	}
	for _, name := range lock.Pins() {
		pin, err := pinset.ParseImage(name)
		if err != nil {
			return s, fmt.Errorf("%s: %w", artifact.LockFile, err)
		}
		if s.Inputs[provenance.ImageURI(name)] != pin.Digest.Encoded() {
			return s, fmt.Errorf("%s does not list %s", artifact.ProvenanceFile, name)
		}
	}
	return s, nil
}
