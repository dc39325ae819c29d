package pinset

import (
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

// ErrReleaseInfo is the error for a document that describes an OpenShift release: it is neither
// an object nor a list of images.
var ErrReleaseInfo = fault.New(fault.Input, "it is the output of `oc adm release info -o json`",
	"use --release, or release.image in the appliance file, to take all images of a release")

// CheckReleaseInfo returns ErrReleaseInfo if a document describes an OpenShift release: the type
// ReleaseInfo in pkg/cli/admin/release/info.go of github.com/openshift/oc.
func CheckReleaseInfo(root *yaml.Node) error {
	references, image := document.Field(root, "references"), document.Text(document.Field(root, "image"))
	if document.Text(document.Field(references, "kind")) != "ImageStream" || image == "" {
		return nil
	}
	return fmt.Errorf("%w: give --release %s", ErrReleaseInfo, image)
}
