package verify

import (
	"bytes"
	"fmt"
	"maps"
	"slices"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
	"github.com/pinbox/pinbox/storage/release"
)

// checkProvenance compares the provenance statement of a release with its sums and its lock. On a medium, the statement
// has the names of the folder that the medium was made of.
func checkProvenance(r *release.Release, lock pinset.Lock, sums layout.Sums) error {
	text, err := r.Provenance()
	if err != nil {
		return err
	}
	s, err := readProvenance(text, lock)
	if err != nil {
		return err
	}
	names := []string{r.Names.Store, r.Names.Lock}
	if r.Form == release.Folder {
		names = append(names, artifact.ISOFile)
	}
	about := 0
	for _, name := range names {
		sum := sums[name]
		if sum == "" { // a store that is a folder has none
			continue
		}
		about++
		if r.Form == release.Folder && s.Subjects[name] != sum ||
			!slices.Contains(slices.Collect(maps.Values(s.Subjects)), sum) {
			return fmt.Errorf("%s is not about %s with the SHA-256 %s", r.Names.Provenance, name, sum)
		}
	}
	if r.Form == release.Folder && len(s.Subjects) > about && !r.InParts() { // the other is the ISO of what was split
		return fmt.Errorf("%s is about %d files, want %d", r.Names.Provenance, len(s.Subjects), about)
	}
	return nil
}

// readProvenance reads a statement, and checks that it is about the images of the lock.
func readProvenance(text []byte, lock pinset.Lock) (provenance.Statement, error) {
	s, err := provenance.Decode(bytes.NewReader(text))
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
