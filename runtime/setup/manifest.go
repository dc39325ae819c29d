package setup

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/runtime/provision"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ManifestPath lists what setup has written.
const ManifestPath = "/etc/pinbox/setup.json"

// ManifestVersion is the version of its format.
const ManifestVersion = 1

// Manifest is the content of ManifestPath. It is written before anything else: what a killed process has left is
// in it.
type Manifest struct {
	Version int `json:"version"`
	// Files that were written, and links to units.
	Files []Entry          `json:"files"`
	Links []provision.Link `json:"links,omitempty"`
	// Directories that were made, parents first.
	Directories []string `json:"directories,omitempty"`
	// Due is what is left to do once the files are written.
	Due Due `json:"due,omitempty"`
}

// Due is what is left to do on a machine that runs.
type Due string

// What is due: a start of the units, or a restart of CRI-O first.
const (
	dueNothing Due = ""
	dueUnits   Due = "units"
	dueRestart Due = "restart"
)

// completed is the manifest once all is done.
func (m Manifest) completed() Manifest {
	m.Files, m.Due = slices.Clone(m.Files), dueNothing
	for i := range m.Files {
		m.Files[i].Was = ""
	}
	return m
}

// Entry is a file that setup has written.
type Entry struct {
	Path   string        `json:"path"`
	Digest digest.Digest `json:"digest"`
	// Was is what the file had before it is replaced; "" once it is.
	Was digest.Digest `json:"was,omitempty"`
}

// file is the entry of a file; nil if setup has not written it.
func (m Manifest) file(path string) *Entry {
	i := slices.IndexFunc(m.Files, func(e Entry) bool { return e.Path == path })
	if i < 0 {
		return nil
	}
	return &m.Files[i]
}

// wrote reports whether setup has written this content.
func (e *Entry) wrote(content digest.Digest) bool {
	return e != nil && (content == e.Digest || e.Was != "" && content == e.Was)
}

// readManifest reads the manifest; it is empty on a machine that was not set up.
func (h host) readManifest() (m Manifest, err error) {
	content, err := h.read(ManifestPath)
	if err != nil || content == nil {
		return m, err
	}
	if err := pinset.Decode(bytes.NewReader(content), ManifestVersion, &m); err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", ManifestPath, err)
	}
	return m, nil
}

func (h host) writeManifest(m Manifest) error {
	m.Version = ManifestVersion
	content, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return h.write(text(ManifestPath, append(content, '\n')))
}

func text(path string, content []byte) provision.File {
	return provision.File{Path: path, Mode: 0o644, Content: content}
}
