package pinset

import (
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
)

// Why a release does not follow another one.
var (
	ErrNotNewer = fault.New(fault.Input, "the release is not newer than that of the node",
		"`pinbox-node rollback` returns to the previous release; --force attaches this one; metadata.release of "+
			"the appliance file is the number")
	ErrOtherAppliance = fault.New(fault.Input, "the store is of another appliance than the node",
		"--force attaches it all the same; metadata.name of the appliance file is the name")
	ErrNoNumber = fault.New(fault.Input, "the release has no number, so a node cannot tell whether it is newer",
		"set metadata.release in the appliance file, or --release-number, to a number that grows with each release")
)

// ReleaseID names a release of an appliance. The zero value is an unknown one.
type ReleaseID struct {
	// Name of the appliance.
	Name string `json:"name,omitempty"`
	// Number grows from release to release; 0 if the release has none.
	Number int64 `json:"release,omitempty"`
}

// maxApplianceName is the length of the longest name of an appliance in bytes: that of an object in
// Kubernetes.
const maxApplianceName = 253

// Check returns an error unless the name and the number can be those of a release. A node shows the name
// on terminals and in units of systemd.
func (r ReleaseID) Check() error {
	switch {
	case len(r.Name) > maxApplianceName:
		return fmt.Errorf("name: %d bytes, more than %d", len(r.Name), maxApplianceName)
	case !Printable(r.Name) || strings.ContainsAny(r.Name, `"\`):
		return fmt.Errorf("name %q: quotes, backslashes or control characters", r.Name)
	case r.Number < 0:
		return fmt.Errorf("release %d: negative", r.Number)
	}
	return nil
}

// Title is the release in messages.
func (r ReleaseID) Title() string {
	if r.Number == 0 {
		return r.Name + " without a number"
	}
	return fmt.Sprintf("%s release %d", r.Name, r.Number)
}

// IsOf returns ErrOtherAppliance unless the release is of the appliance of another one. One without a name is
// of any.
func (r ReleaseID) IsOf(other ReleaseID) error {
	if other.Name == "" || r.Name == other.Name {
		return nil
	}
	return fmt.Errorf("%w: it is of %q, and the node has %q", ErrOtherAppliance, r.Name, other.Name)
}

// Follows returns ErrNotNewer if the release and an earlier one are of the same appliance, and the number has not
// grown. Any release follows one without a number.
func (r ReleaseID) Follows(earlier ReleaseID) error {
	if r.Name != earlier.Name || earlier.Number == 0 || r.Number > earlier.Number {
		return nil
	}
	return fmt.Errorf("%w: it is %s, and the node has %s", ErrNotNewer, r.Title(), earlier.Title())
}

// IsUnordered reports whether two releases of an appliance have no number, so that either may be the newer one.
func (r ReleaseID) IsUnordered(other ReleaseID) bool {
	return r.Name == other.Name && r.Number == 0 && other.Number == 0
}
