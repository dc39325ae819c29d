package pinset

import (
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
)

// ErrReleaseInfo says that a document describes a release, and names its images
// otherwise than objects and lists do.
var ErrReleaseInfo = errors.New("it is of `oc adm release info -o json`")

// CheckReleaseInfo gives that error if a document is what oc prints of a release:
// ReleaseInfo in pkg/cli/admin/release/info.go of github.com/openshift/oc.
func CheckReleaseInfo(root *yaml.Node) error {
	references, image := document.Field(root, "references"), document.Text(document.Field(root, "image"))
	if document.Text(document.Field(references, "kind")) != "ImageStream" || image == "" {
		return nil
	}
	return fmt.Errorf("%w: give --release %s", ErrReleaseInfo, image)
}
