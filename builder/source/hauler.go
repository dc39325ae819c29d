package source

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors of a file of Hauler: it has a field that pinbox does not support, or does not know.
var (
	ErrHauler = fault.New(fault.Input, "pinbox does not support this field of Hauler",
		"remove the field from a copy of the file, and set what the message names")
	ErrHaulerField = fault.New(fault.Input, "pinbox does not know this field of Hauler",
		"remove the field from a copy of the file, or correct its name")
)

const (
	haulerGroup      = "content.hauler.cattle.io/"
	haulerAnnotation = "hauler.dev/"
)

const (
	bySignature = "the policy of --policy checks signatures"
	byCA        = "the CAs of registries are read from the folder of --cert-dir"
)

// haulerFields are the fields of an image in Hauler's Images, v1 and v1alpha1, and the annotations
// that set them for all images of a document, with what to do instead; "" if pinbox can ignore
// them: pkg/apis/hauler.cattle.io/v1/image.go and pkg/consts/consts.go of
// github.com/hauler-dev/hauler.
var haulerFields = []struct{ name, instead string }{
	{"certificate-github-workflow-repository", bySignature},
	{"certificate-identity", bySignature},
	{"certificate-identity-regexp", bySignature},
	{"certificate-oidc-issuer", bySignature},
	{"certificate-oidc-issuer-regexp", bySignature},
	{"ca-file", byCA},
	{"exclude-extras", ""}, // what Hauler saves in addition to images
	{"insecure-skip-tls-verify", byCA},
	{"key", bySignature},
	{"local", "name local images with --archive or --containers-storage"},
	{"name", ""},
	{"platform", "change it with spec.platform or --platform"},
	{"registry", "add the registry to the names that have none"},
	{"retries", ""}, // as store, a setting of Hauler itself
	{"rewrite", "pinbox does not rename images: write the name that nodes use, and its mirror with --mirrors"},
	{"store", ""},
	{"use-tlog-verify", bySignature},
}

// haulerOthers are the other kinds of Hauler, and what to do about them.
var haulerOthers = map[string]string{
	"Charts": "pass the output of `helm template` to --manifests",
	"Files":  "they are not images",
}

// hauler reads one document of Hauler's Images.
type hauler struct {
	path  string
	o     Options
	names []Named
	errs  []error
}

func (h *hauler) document(root *yaml.Node) {
	h.known(root, "apiVersion", "kind", "metadata", "spec", "status")
	spec := document.Field(root, "spec")
	h.known(spec, "images")
	list := document.Field(spec, "images")
	if list == nil {
		return
	}
	for _, item := range list.Content {
		h.image(item)
	}
	h.annotations(document.Field(document.Field(root, "metadata"), "annotations"), list)
}

func (h *hauler) image(item *yaml.Node) {
	name := document.Field(item, "name")
	if document.Text(name) == "" {
		h.errs = append(h.errs, fmt.Errorf("%s:%d: %w: an entry of spec.images needs a name", h.path, item.Line, ErrList))
		return
	}
	named, err := h.o.complete(name.Value, fmt.Sprintf("%s:%d", h.path, name.Line))
	h.names, h.errs = append(h.names, named), append(h.errs, err)
	for i := 0; i+1 < len(item.Content); i += 2 {
		h.field(item.Content[i].Value, item.Content[i], item.Content[i+1])
	}
}

// annotations checks the annotations, which set fields that an image leaves out.
func (h *hauler) annotations(n, images *yaml.Node) {
	if n == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name, ours := strings.CutPrefix(n.Content[i].Value, haulerAnnotation)
		leftOut := func(item *yaml.Node) bool { return document.Text(document.Field(item, name)) == "" }
		if ours && slices.ContainsFunc(images.Content, leftOut) {
			h.field(name, n.Content[i], n.Content[i+1])
		}
	}
}

// field checks one field of an image.
func (h *hauler) field(name string, key, value *yaml.Node) {
	var known []string
	for _, f := range haulerFields {
		if f.name == name {
			h.support(name, f.instead, key, value)
			return
		}
		known = append(known, f.name)
	}
	h.unknown(key, known)
}

func (h *hauler) support(name, instead string, key, value *yaml.Node) {
	text := document.Text(value)
	switch {
	case value.Kind != yaml.ScalarNode:
		h.fail(key, "%w: must be a string", ErrHauler)
	case text == "" || text == "false" || instead == "" || name == "platform" && text == string(h.o.Platform):
	case name == "platform":
		h.fail(key, "%w: the appliance is for %s; %s", ErrHauler, h.o.Platform, instead)
	default:
		h.fail(key, "%w: %s", ErrHauler, instead)
	}
}

// known refuses fields with other names.
func (h *hauler) known(n *yaml.Node, names ...string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(names, key.Value) {
			h.unknown(key, names)
		}
	}
}

func (h *hauler) unknown(key *yaml.Node, known []string) {
	h.fail(key, "%w; known here: %s", ErrHaulerField, strings.Join(known, ", "))
}

func (h *hauler) fail(key *yaml.Node, format string, args ...any) {
	h.errs = append(h.errs, fmt.Errorf("%s:%d: %s: %w", h.path, key.Line, key.Value, fmt.Errorf(format, args...)))
}
