package source

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrImageSetConfig is returned for a file that is not an ImageSetConfiguration.
var ErrImageSetConfig = fault.New(fault.Input, "not an ImageSetConfiguration of oc-mirror v2",
	"the documentation of oc-mirror v2 lists the fields of v2alpha1")

// ImageSetConfig is an ImageSetConfiguration: mirror.openshift.io/v2alpha1, in
// internal/pkg/api/v2alpha1 of github.com/openshift/oc-mirror.
type ImageSetConfig struct {
	APIVersion  string `yaml:"apiVersion"`
	Kind        string `yaml:"kind"`
	ArchiveSize int64  `yaml:"archiveSize"`
	Mirror      struct {
		Platform         ImageSetPlatform  `yaml:"platform"`
		Operators        []Catalog         `yaml:"operators"`
		AdditionalImages []AdditionalImage `yaml:"additionalImages"`
		Helm             struct {
			Repositories []yaml.Node `yaml:"repositories"`
			Local        []yaml.Node `yaml:"local"`
		} `yaml:"helm"`
		BlockedImages []struct {
			Name string `yaml:"name"`
		} `yaml:"blockedImages"`
		Samples []yaml.Node `yaml:"samples"`
	} `yaml:"mirror"`

	origin  string
	blocked []*regexp.Regexp
}

// ImageSetPlatform are the releases.
type ImageSetPlatform struct {
	Graph             bool       `yaml:"graph"`
	Channels          []Channel  `yaml:"channels"`
	Architectures     []string   `yaml:"architectures"`
	Platforms         []platform `yaml:"platforms"`
	Release           string     `yaml:"release"`
	KubeVirtContainer bool       `yaml:"kubeVirtContainer"`
}

// Channel of releases.
type Channel struct {
	Name         string `yaml:"name"`
	Type         string `yaml:"type"`
	MinVersion   string `yaml:"minVersion"`
	MaxVersion   string `yaml:"maxVersion"`
	ShortestPath bool   `yaml:"shortestPath"`
	Full         bool   `yaml:"full"`
}

// Catalog of operators. oc-mirror names its rebuilt catalog by a checksum of this JSON, so the
// order of the fields matters.
type Catalog struct {
	Packages                    []Package  `yaml:"packages" json:"packages"`
	Catalog                     string     `yaml:"catalog" json:"catalog"`
	TargetCatalog               string     `yaml:"targetCatalog" json:"-"`
	TargetTag                   string     `yaml:"targetTag" json:"-"`
	Full                        bool       `yaml:"full" json:"full,omitempty"`
	SkipDependencies            bool       `yaml:"skipDependencies" json:"skipDependencies,omitempty"`
	TargetCatalogSourceTemplate string     `yaml:"targetCatalogSourceTemplate" json:"-"`
	Platforms                   []platform `yaml:"platforms" json:"platforms,omitempty"`
}

// Package of a catalog.
type Package struct {
	Name           string           `yaml:"name" json:"name"`
	Channels       []PackageChannel `yaml:"channels" json:"channels,omitempty"`
	DefaultChannel string           `yaml:"defaultChannel" json:"defaultChannel,omitempty"`
	MinVersion     string           `yaml:"minVersion" json:"minVersion,omitempty"`
	MaxVersion     string           `yaml:"maxVersion" json:"maxVersion,omitempty"`
}

// PackageChannel is a channel of a package.
type PackageChannel struct {
	Name       string `yaml:"name" json:"name"`
	MinVersion string `yaml:"minVersion" json:"minVersion,omitempty"`
	MaxVersion string `yaml:"maxVersion" json:"maxVersion,omitempty"`
}

type platform struct {
	OS           string `yaml:"os" json:"os"`
	Architecture string `yaml:"architecture" json:"architecture"`
}

// AdditionalImage is an image of its own, of no release, catalog or chart.
type AdditionalImage struct {
	Name       string     `yaml:"name"`
	TargetRepo string     `yaml:"targetRepo"`
	TargetTag  string     `yaml:"targetTag"`
	Platforms  []platform `yaml:"platforms"`
}

// ParseImageSetConfig reads an ImageSetConfiguration; path is for messages. Unknown
// fields are errors, as for oc-mirror.
func ParseImageSetConfig(path string, content []byte) (*ImageSetConfig, error) {
	var head struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string
	}
	if err := yaml.Unmarshal(content, &head); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImageSetConfig, YAMLError(path, err))
	}
	if head.Kind == "DeleteImageSetConfiguration" {
		return nil, fmt.Errorf("%w: %s: it is a %s: it lists what oc-mirror deletes from a registry, not what it mirrors",
			ErrImageSetConfig, path, head.Kind)
	}
	if head.APIVersion != "mirror.openshift.io/v2alpha1" || head.Kind != "ImageSetConfiguration" {
		return nil, fmt.Errorf("%w: %s: it is %s of %s; v2 has mirror.openshift.io/v2alpha1",
			ErrImageSetConfig, path, cmp.Or(head.Kind, "no kind"), cmp.Or(head.APIVersion, "no apiVersion"))
	}
	s := &ImageSetConfig{origin: path}
	dec := yaml.NewDecoder(bytes.NewReader(content))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrImageSetConfig, YAMLError(path, err))
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s: more than one document: oc-mirror reads the first alone", ErrImageSetConfig, path)
	}
	m := s.Mirror
	if len(m.Platform.Channels)+len(m.Operators)+len(m.AdditionalImages) == 0 && m.Platform.Release == "" && !s.charts() {
		return nil, fmt.Errorf("%w: %s: it requests no image", ErrImageSetConfig, path)
	}
	for i, b := range s.Mirror.BlockedImages {
		pattern, err := regexp.Compile(b.Name)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: mirror.blockedImages[%d]: %w", ErrImageSetConfig, path, i, err)
		}
		s.blocked = append(s.blocked, pattern)
	}
	return s, nil
}

// cachePrefix is the registry of oc-mirror's cache.
const cachePrefix = "localhost:55000/"

// Blocked reports whether blockedImages has an image, by its name or by its tag in the cache:
// excludeImages in internal/pkg/cli there.
func (s *ImageSetConfig) Blocked(name, tag string) bool {
	if s == nil {
		return false
	}
	if _, below, ok := strings.Cut(name, "://"); ok {
		name = below
	}
	return slices.ContainsFunc(s.blocked, func(p *regexp.Regexp) bool {
		return p.MatchString(name) || tag != "" && p.MatchString(cachePrefix+tag)
	})
}

// Images returns the additional images.
func (s *ImageSetConfig) Images() (names []Named, err error) {
	var errs []error
	for i, img := range s.Mirror.AdditionalImages {
		if s.Blocked(img.Name, "") {
			continue
		}
		name, err := parse(img.Name, fmt.Sprintf("%s: mirror.additionalImages[%d]", s.origin, i))
		names, errs = append(names, name), append(errs, err)
	}
	return names, errors.Join(errs...)
}

// NotIn lists what this configuration requests and a newer one does not.
func (s *ImageSetConfig) NotIn(newer *ImageSetConfig) (more []string) {
	hasReleases := func(s *ImageSetConfig) bool {
		return len(s.Mirror.Platform.Channels) > 0 || s.Mirror.Platform.Release != ""
	}
	if hasReleases(s) && !hasReleases(newer) {
		more = append(more, "releases")
	}
	for _, c := range s.Mirror.Operators {
		if !slices.ContainsFunc(newer.Mirror.Operators, func(o Catalog) bool { return o.Catalog == c.Catalog }) {
			more = append(more, c.Catalog)
		}
	}
	for _, img := range s.Mirror.AdditionalImages {
		if !slices.ContainsFunc(newer.Mirror.AdditionalImages, func(o AdditionalImage) bool { return o.Name == img.Name }) {
			more = append(more, img.Name)
		}
	}
	return more
}

// OCMirrorOnly lists the fields that only oc-mirror can resolve: they need the graph of releases,
// the content of a catalog or a chart.
func (s *ImageSetConfig) OCMirrorOnly() (fields []string) {
	m := s.Mirror
	for _, f := range []struct {
		name string
		used bool
	}{
		{"platform.channels", len(m.Platform.Channels) > 0},
		{"platform.graph", m.Platform.Graph},
		{"platform.kubeVirtContainer", m.Platform.KubeVirtContainer},
		{"operators", len(m.Operators) > 0},
		{"helm", s.charts()},
		{"samples", len(m.Samples) > 0},
	} {
		if f.used {
			fields = append(fields, "mirror."+f.name)
		}
	}
	return fields
}

// chartPlatforms lists the platforms of all charts; none if one of the charts has no list.
func (s *ImageSetConfig) chartPlatforms() (all []platform) {
	type chart struct{ Platforms []platform }
	charts := make([]chart, len(s.Mirror.Helm.Local))
	for i, node := range s.Mirror.Helm.Local {
		if node.Decode(&charts[i]) != nil {
			return nil
		}
	}
	for _, node := range s.Mirror.Helm.Repositories {
		var repository struct{ Charts []chart }
		if node.Decode(&repository) != nil || len(repository.Charts) == 0 {
			return nil
		}
		charts = append(charts, repository.Charts...)
	}
	for _, c := range charts {
		if len(c.Platforms) == 0 {
			return nil
		}
		all = append(all, c.Platforms...)
	}
	return all
}

func (s *ImageSetConfig) charts() bool {
	return len(s.Mirror.Helm.Repositories)+len(s.Mirror.Helm.Local) > 0
}
