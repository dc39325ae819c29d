package source

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrHauler says that Hauler would do what pinbox does not.
var ErrHauler = errors.New("pinbox does not follow this field of Hauler")

const (
	haulerGroup      = "content.hauler.cattle.io/"
	haulerAnnotation = "hauler.dev/"
)

// haulerFields are those that change which images Hauler takes, or how, with what to do
// about them instead; "" where they make no difference here. They are of an image in its
// Images, of v1 and v1alpha1, and of annotations that stand for all images of a document:
// pkg/apis/hauler.cattle.io/v1/image.go and pkg/consts/consts.go of
// github.com/hauler-dev/hauler.
func haulerFields(platform pinset.Platform) map[string]string {
	const signed = "signatures are checked by the policy that --policy names"
	const ca = "the CAs of registries stand in the folder that --cert-dir names"
	return map[string]string{
		"key":                                    signed,
		"use-tlog-verify":                        signed,
		"certificate-identity":                   signed,
		"certificate-identity-regexp":            signed,
		"certificate-oidc-issuer":                signed,
		"certificate-oidc-issuer-regexp":         signed,
		"certificate-github-workflow-repository": signed,
		"platform":                               fmt.Sprintf("the appliance is for %s, which spec.platform and --platform change", platform),
		"rewrite":                                "an image keeps its name: name it as the nodes do, and where it is with --mirrors",
		"local":                                  "images on this machine are given with --archive or --containers-storage",
		"ca-file":                                ca,
		"insecure-skip-tls-verify":               ca,
		"exclude-extras":                         "", // of what Hauler saves beside images
	}
}

// haulerOthers are the kinds beside Images, and what to do about them.
func haulerOthers() map[string]string {
	return map[string]string{
		"Charts": "give what `helm template` makes of them with --manifests",
		"Files":  "they are no images",
	}
}

// hauler reads one document of Hauler's Images.
type hauler struct {
	path     string
	platform pinset.Platform
	fields   map[string]string
	names    []Named
	errs     []error
}

func (h *hauler) document(root *yaml.Node) {
	h.fields = haulerFields(h.platform)
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
		h.errs = append(h.errs, fmt.Errorf("%s:%d: %w: an entry of spec.images has a name", h.path, item.Line, ErrList))
		return
	}
	named, err := parse(name.Value, fmt.Sprintf("%s:%d", h.path, name.Line))
	h.names, h.errs = append(h.names, named), append(h.errs, err)
	for i := 0; i+1 < len(item.Content); i += 2 {
		key, value := item.Content[i], item.Content[i+1]
		if instead, ok := h.fields[key.Value]; ok {
			h.follow(key.Value, instead, key, value)
		}
	}
	h.known(item, append(slices.Sorted(maps.Keys(h.fields)), "name")...)
}

// annotations stand for fields that an image leaves out.
func (h *hauler) annotations(n, images *yaml.Node) {
	if n == nil {
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		name, ours := strings.CutPrefix(key.Value, haulerAnnotation)
		instead, ok := h.fields[name]
		switch {
		case !ours || name == "store" || name == "retries": // of how Hauler works
		case name == "registry":
			h.follow(name, "names have their registries here: write it into those without", key, value)
		case !ok:
			h.fail(key, "those that it knows are %s", strings.Join(slices.Sorted(maps.Keys(h.fields)), ", "))
		case slices.ContainsFunc(images.Content, func(item *yaml.Node) bool { return document.Text(document.Field(item, name)) == "" }):
			h.follow(name, instead, key, value)
		}
	}
}

// follow finds fault with a field that is set to what makes a difference.
func (h *hauler) follow(name, instead string, key, value *yaml.Node) {
	text := document.Text(value)
	switch {
	case value.Kind != yaml.ScalarNode:
		h.fail(key, "it is no text")
	case text == "" || text == "false" || instead == "" || name == "platform" && text == string(h.platform):
	default:
		h.fail(key, "%s", instead)
	}
}

func (h *hauler) known(n *yaml.Node, names ...string) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		if key := n.Content[i]; !slices.Contains(names, key.Value) {
			h.fail(key, "those that it knows here are %s", strings.Join(names, ", "))
		}
	}
}

func (h *hauler) fail(key *yaml.Node, format string, args ...any) {
	h.errs = append(h.errs, fmt.Errorf("%s:%d: %s: %w: %s", h.path, key.Line, key.Value, ErrHauler, fmt.Sprintf(format, args...)))
}
