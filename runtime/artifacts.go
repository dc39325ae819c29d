package runtime

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrArtifacts means that CRI-O cannot read the OCI artifacts of stores.
var ErrArtifacts = errors.New("CRI-O reads no OCI artifacts of stores before 1.36")

// artifactsProblem is an ErrArtifacts with the artifacts of stores that CRI-O does not list; nil if it lists all that
// sets ask for. Another error is that of a lock, which others report.
func artifactsProblem(d Disk, n nodeState) error {
	missing := n.missing()
	if len(missing) == 0 || !before(n.version, 36) {
		return nil
	}
	locks, _, _ := d.Locks()
	var names []string
	for _, lock := range locks {
		for _, a := range lock.Artifacts {
			if slices.ContainsFunc(missing, func(img pinset.Image) bool { return img.String() == a.Pin }) {
				names = append(names, a.Pin)
			}
		}
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("%w, and this is %s: a store has %d that it does not list, such as %s", ErrArtifacts, n.version,
		len(names), names[0])
}

// before reports whether a version, such as "cri-o 1.34.0", is known and before 1.minor.
func before(version string, minor int) bool {
	var major, found int
	if n, err := fmt.Sscanf(version, "cri-o %d.%d", &major, &found); n < 2 || err != nil {
		return false
	}
	return major < 1 || major == 1 && found < minor
}

// isArtifact reports whether CRI-O lists an OCI artifact: its ID is the digest of its manifest. CRI-O pins those of
// stores whatever its configuration says.
func isArtifact(s pinset.StoredImage) bool {
	return slices.ContainsFunc(s.Names, func(name string) bool { return strings.HasSuffix(name, "@sha256:"+s.ID) })
}
