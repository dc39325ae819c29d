package ignition

import (
	"bytes"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/runtime/provision"
)

// The version of Butane's Fedora CoreOS flavour that gives Ignition 3.4, which
// every CoreOS with a CRI-O new enough for pinbox can read.
const (
	butaneVariant = "fcos"
	butaneVersion = "1.5.0"
)

// The part of Butane that pinbox writes.
type (
	document struct {
		Variant  string    `yaml:"variant"`
		Version  string    `yaml:"version"`
		Metadata *metadata `yaml:"metadata,omitempty"`
		Ignition *ignition `yaml:"ignition,omitempty"`
		Passwd   *passwd   `yaml:"passwd,omitempty"`
		Storage  struct {
			Files []file `yaml:"files"`
		} `yaml:"storage"`
		Systemd struct {
			Units []unit `yaml:"units"`
		} `yaml:"systemd"`
	}
	ignition struct {
		Config struct {
			Merge []content `yaml:"merge"`
		} `yaml:"config"`
	}
	passwd struct {
		Users []user `yaml:"users"`
	}
	user struct {
		Name    string   `yaml:"name"`
		SSHKeys []string `yaml:"ssh_authorized_keys"`
	}
	file struct {
		about     string  // a comment above it
		Path      string  `yaml:"path"`
		Mode      mode    `yaml:"mode,omitempty"` // 0644 without
		Overwrite bool    `yaml:"overwrite"`
		Contents  content `yaml:"contents"`
	}
	content struct {
		Inline string `yaml:"inline"`
	}
	unit struct {
		Name     string   `yaml:"name"`
		Enabled  bool     `yaml:"enabled,omitempty"`
		Contents string   `yaml:"contents,omitempty"`
		Dropins  []dropin `yaml:"dropins,omitempty"`
	}
	dropin struct {
		Name     string `yaml:"name"`
		Contents string `yaml:"contents"`
	}
)

// mode is written in octal, as chmod(1) reads it.
type mode uint32

func (m mode) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: fmt.Sprintf("%#o", uint32(m))}, nil
}

func (f file) MarshalYAML() (any, error) {
	type plain file
	var node yaml.Node
	err := node.Encode(plain(f))
	node.HeadComment = f.about
	return &node, err
}

// add adds what a node must hold.
func (d *document) add(p provision.Parts) {
	for _, f := range p.Files {
		added := file{about: f.About, Path: f.Path, Overwrite: true, Contents: content{Inline: string(f.Content)}}
		if f.Mode != 0o644 { // Ignition's own default
			added.Mode = mode(f.Mode)
		}
		d.Storage.Files = append(d.Storage.Files, added)
	}
	for _, u := range p.Units {
		added := unit{Name: u.Name, Enabled: u.Enabled, Contents: u.Content}
		for _, in := range u.Dropins {
			added.Dropins = append(added.Dropins, dropin{Name: in.Name, Contents: in.Content})
		}
		d.Systemd.Units = append(d.Systemd.Units, added)
	}
}

// Render returns the configuration as Butane: equal configurations, equal bytes.
func Render(c Config) ([]byte, error) {
	doc := newDocument(c.SSHKeys)
	if err := doc.merge(c); err != nil {
		return nil, err
	}
	n := c.Node
	n.Keys = n.Keys || c.HasKeys()
	parts, err := n.Parts()
	if err != nil {
		return nil, err
	}
	parts.Files = append(parts.Files, provision.Tmpfiles(parts.Directories))
	doc.add(parts)
	return doc.encode("First-boot configuration of a pinbox appliance", "config")
}

func newDocument(sshKeys []string) document {
	doc := document{Variant: butaneVariant, Version: butaneVersion}
	if len(sshKeys) > 0 {
		doc.Passwd = &passwd{Users: []user{{Name: "core", SSHKeys: sshKeys}}}
	}
	return doc
}

// encode writes the document below a comment: what it is, and the command that translates it.
func (d document) encode(about, name string) ([]byte, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s: `butane --strict --pretty %s.bu` makes %s.ign.\n", about, name, name)
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	enc.CompactSeqIndent()
	if err := enc.Encode(d); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// merge adds the snippets as configurations of their own, which Ignition merges into this one on
// the node.
func (d *document) merge(c Config) error {
	for _, s := range c.Snippets {
		config, err := s.translate()
		if err == nil {
			config, err = c.without(config)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		if d.Ignition == nil {
			d.Ignition = &ignition{}
		}
		m := content{Inline: string(config)}
		// Ignition refuses a duplicate; of equal snippets the last one counts.
		others := slices.DeleteFunc(d.Ignition.Config.Merge, func(earlier content) bool { return earlier == m })
		d.Ignition.Config.Merge = append(others, m)
	}
	return nil
}
