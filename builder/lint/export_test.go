package lint

import "github.com/pinbox/pinbox/builder/spec"

// AllRequests are the rows of all versions.
var AllRequests = requests

// Versions describes the versions of OpenShift that have it.
func (r Request) Versions() string {
	none := spec.Minor{}
	switch {
	case r.from == none && r.until == none:
		return "all"
	case r.from == none:
		return "to " + r.until.String()
	case r.until == none:
		return "from " + r.from.String()
	}
	return r.from.String() + " to " + r.until.String()
}
