package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/mirror"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
)

// Errors of files of mirrors.
var (
	ErrMirrors = fault.New(fault.Input, "not a valid object of mirrors",
		"`oc explain imagedigestmirrorset.spec` shows the form; so does imagetagmirrorset.spec")
	ErrNoMirrors = fault.New(fault.Input, "no ImageDigestMirrorSet, ImageTagMirrorSet or ImageContentSourcePolicy found",
		"name a file or a folder with such objects; oc-mirror writes them to cluster-resources")
)

// mirrorKind is a kind of the cluster's API that names mirrors.
type mirrorKind struct {
	apiVersion string
	// list is the field of spec with the rules, and fields are the fields of a rule.
	list     string
	fields   []string
	pullFrom mirror.PullFrom
}

// mirrorKinds as in openshift/api. ImageDigestMirrorSet replaces ImageContentSourcePolicy.
func mirrorKinds() map[string]mirrorKind {
	fields := []string{"source", "mirrors", "mirrorSourcePolicy"}
	return map[string]mirrorKind{
		"ImageDigestMirrorSet":     {"config.openshift.io/v1", "imageDigestMirrors", fields, mirror.Digest},
		"ImageTagMirrorSet":        {"config.openshift.io/v1", "imageTagMirrors", fields, mirror.Tag},
		"ImageContentSourcePolicy": {"operator.openshift.io/v1alpha1", "repositoryDigestMirrors", fields[:2], mirror.Digest},
	}
}

// ReadMirrors reads the rules of ImageDigestMirrorSets, ImageTagMirrorSets and
// ImageContentSourcePolicies from files, and from all files in folders that end in .yaml, .yml or
// .json. Warnings describe rules without effect.
func ReadMirrors(ctx context.Context, paths []string) (rules []mirror.Rule, warnings []string, err error) {
	err = readFiles(ctx, paths, ErrNoMirrors, func(file string, content io.Reader) (int, error) {
		m := mirrorReader{origin: file}
		err := m.stream(content)
		rules, warnings = append(rules, m.rules...), append(warnings, m.warnings...)
		return m.objects, err
	})
	if err != nil {
		return nil, nil, err
	}
	return rules, warnings, nil
}

// mirrorReader reads one file. It continues after an error, to report all of them.
type mirrorReader struct {
	origin string
	// object is the kind and the name of the object being read.
	object   string
	rules    []mirror.Rule
	objects  int
	warnings []string
	errs     []error
}

func (m *mirrorReader) stream(r io.Reader) error {
	roots, err := document.Read(r)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", m.origin, ErrMirrors, err)
	}
	for _, root := range roots {
		m.document(root)
	}
	return errors.Join(m.errs...)
}

func (m *mirrorReader) fail(n *yaml.Node, format string, args ...any) {
	where := fmt.Sprintf("%s:%d: ", m.origin, n.Line)
	if m.object != "" {
		where += m.object + ": "
	}
	m.errs = append(m.errs, fmt.Errorf("%s%w: %w", where, ErrMirrors, fmt.Errorf(format, args...)))
}

func (m *mirrorReader) document(n *yaml.Node) {
	m.object = ""
	kinds := mirrorKinds()
	name, version := document.Text(document.Field(n, "kind")), document.Text(document.Field(n, "apiVersion"))
	kind, known := kinds[name]
	if items, ok := strings.CutSuffix(name, "List"); ok && (items == "" || kinds[items].list != "") {
		if list := document.Field(n, "items"); list != nil {
			for _, item := range list.Content {
				m.document(item)
			}
		}
		return
	}
	switch {
	case n.Kind != yaml.MappingNode:
		m.fail(n, "not an object")
	case name == "" && installMirrors(n) != nil:
		m.objects++
		m.object = "install-config"
		for _, entry := range installMirrors(n).Content {
			m.rule(entry, "imageDigestSources", kinds["ImageContentSourcePolicy"])
		}
	case name == "":
		m.fail(n, "kind is missing; is the file complete? Of an install-config, imageDigestSources and "+
			"imageContentSources are read")
	case known && version != kind.apiVersion:
		m.fail(n, "apiVersion of %s is %q; it is %s", name, version, kind.apiVersion)
	case known:
		m.set(n, name, kind)
	default:
		for proper := range kinds {
			if strings.EqualFold(name, proper) {
				m.fail(n, "kind %q is spelt %s", name, proper)
				return
			}
		}
	}
}

// installMirrors returns the mirrors in the install-config.yaml of OpenShift, which has no kind; nil if there are none.
// imageContentSources is the older name: pkg/types/installconfig.go of openshift/installer.
func installMirrors(n *yaml.Node) *yaml.Node {
	if list := document.Field(n, "imageDigestSources"); list != nil {
		return list
	}
	return document.Field(n, "imageContentSources")
}

func (m *mirrorReader) set(n *yaml.Node, name string, kind mirrorKind) {
	m.objects++
	m.object = fmt.Sprintf("%s %q", name, document.Text(document.Field(document.Field(n, "metadata"), "name")))
	m.known(n, "", "apiVersion", "kind", "metadata", "spec", "status")
	spec := document.Field(n, "spec")
	if spec == nil || spec.Kind != yaml.MappingNode {
		m.fail(n, "spec is missing")
		return
	}
	m.known(spec, "spec.", kind.list)
	list := document.Field(spec, kind.list)
	switch {
	case list == nil:
		m.fail(spec, "spec.%s is missing", kind.list)
	case list.Kind != yaml.SequenceNode:
		m.fail(list, "spec.%s is not a list", kind.list)
	default:
		for _, entry := range list.Content {
			m.rule(entry, "spec."+kind.list, kind)
		}
	}
}

// rule reads an entry of a list, whose name is for messages.
func (m *mirrorReader) rule(n *yaml.Node, list string, kind mirrorKind) {
	if n.Kind != yaml.MappingNode || document.Field(n, "source") == nil {
		m.fail(n, "an entry of %s has a source and mirrors", list)
		return
	}
	m.known(n, list+"[].", kind.fields...)
	from := document.Text(document.Field(n, "source"))
	r := mirror.Rule{Source: from, PullFrom: kind.pullFrom, Origin: fmt.Sprintf("%s:%d", m.origin, n.Line)}
	if err := mirror.CheckSource(r.Source); err != nil {
		m.fail(document.Field(n, "source"), "%w", err)
	}
	if policy := document.Field(n, "mirrorSourcePolicy"); policy != nil {
		switch text := document.Text(policy); text {
		case mirror.NeverContactSource:
			r.NeverContactSource = true
		case "", mirror.AllowContactingSource:
		default:
			m.fail(policy, "mirrorSourcePolicy is %q; it must be %s or %s", text,
				mirror.NeverContactSource, mirror.AllowContactingSource)
		}
	}
	r.Mirrors = m.mirrors(document.Field(n, "mirrors"), r)
	if r.NeverContactSource && len(r.Mirrors) == 0 { // as on a cluster's nodes
		warning := fmt.Sprintf("%s: %s of %s has no effect, as the rule names no mirror",
			r.Origin, mirror.NeverContactSource, r.Source)
		m.warnings = append(m.warnings, warning)
	}
	m.rules = append(m.rules, r)
}

func (m *mirrorReader) mirrors(list *yaml.Node, r mirror.Rule) (all []string) {
	if list == nil {
		return nil // the API permits a rule without mirrors; it has no effect
	}
	if list.Kind != yaml.SequenceNode {
		m.fail(list, "mirrors of %s are not a list", r.Source)
		return nil
	}
	for _, n := range list.Content {
		text := document.Text(n)
		err := mirror.CheckMirror(text)
		switch {
		case err != nil:
			m.fail(n, "mirror of %s %w", r.Source, err)
		case slices.Contains(all, text):
			m.fail(n, "mirror of %s %q is listed twice", r.Source, text)
		case r.NeverContactSource && text == r.Source:
			m.fail(n, "%s is its own mirror, and %s forbids to ask it", text, mirror.NeverContactSource)
		}
		all = append(all, text)
	}
	return all
}

func (m *mirrorReader) known(n *yaml.Node, prefix string, names ...string) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if !slices.Contains(names, n.Content[i].Value) {
			m.fail(n.Content[i], "unknown field %s%s; known are %s", prefix, n.Content[i].Value, strings.Join(names, ", "))
		}
	}
}
