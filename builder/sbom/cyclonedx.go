package sbom

import (
	"io"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"

	"github.com/pinbox/pinbox/storage/pinset"
)

// CycloneDX writes the inventory as CycloneDX 1.6 in JSON. version is that of pinbox.
func (v Inventory) CycloneDX(w io.Writer, version string) error {
	sum, err := v.sum()
	if err != nil {
		return err
	}
	d := cyclonedxDocument{done: map[string]bool{}}
	store := cyclonedx.Component{
		BOMRef: "Store", Type: cyclonedx.ComponentTypeContainer, Name: "pinbox store",
		Properties: properties(property{"platform", []string{string(v.Platform)}}),
	}
	contents := []string{}
	for _, img := range v.Images {
		contents = append(contents, d.image(img))
	}
	for _, a := range v.Artifacts {
		contents = append(contents, d.artifact(a))
	}
	d.dependencies = append(d.dependencies, cyclonedx.Dependency{Ref: store.BOMRef, Dependencies: &contents})
	bom := cyclonedx.NewBOM()
	bom.SerialNumber = "urn:uuid:" + uuid(sum)
	bom.Metadata = &cyclonedx.Metadata{
		Timestamp: v.Created.UTC().Format(time.RFC3339), Component: &store,
		Tools: &cyclonedx.ToolsChoice{Components: &[]cyclonedx.Component{{
			Type: cyclonedx.ComponentTypeApplication, Name: "pinbox", Version: version,
		}}},
	}
	bom.Components, bom.Dependencies = &d.components, &d.dependencies
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).
		EncodeVersion(bom, cyclonedx.SpecVersion1_6)
}

// cyclonedxDocument is a document that is made.
type cyclonedxDocument struct {
	components   []cyclonedx.Component
	dependencies []cyclonedx.Dependency
	done         map[string]bool
}

// add adds a component, unless it was added before, and returns its reference.
func (d *cyclonedxDocument) add(c cyclonedx.Component) string {
	if !d.done[c.BOMRef] {
		d.done[c.BOMRef] = true
		d.components = append(d.components, c)
	}
	return c.BOMRef
}

func (d *cyclonedxDocument) image(img Image) string {
	repository, digest, _ := strings.Cut(img.Pin, "@")
	about := properties(property{"from", img.From}, property{"tag", img.Tags},
		property{"manifest", []string{img.Manifest.String()}}, property{"configuration", []string{img.Config.String()}},
		property{"packagesNotRead", img.Unread})
	ref := d.add(cyclonedx.Component{
		BOMRef: key("Image", img.Pin), Type: cyclonedx.ComponentTypeContainer, Name: repository, Version: digest,
		PackageURL: imagePURL(img.Pin), Properties: about, Hashes: sha256Of(img.Manifest.Encoded()),
	})
	parts := []string{}
	for _, l := range img.Layers {
		part := d.add(cyclonedx.Component{
			BOMRef: "Layer-" + l.Digest.Encoded(), Type: cyclonedx.ComponentTypeFile, Name: "layer",
			Version: l.Digest.String(), Hashes: sha256Of(l.Digest.Encoded()),
			Properties: properties(
				property{"diffID", []string{l.DiffID.String()}}, property{"mediaType", []string{l.MediaType}}),
		})
		if !slices.Contains(parts, part) { // an image may have a layer twice
			parts = append(parts, part)
		}
	}
	for _, p := range img.Packages {
		purl := p.purl()
		parts = append(parts, d.add(cyclonedx.Component{
			BOMRef: key("Package", purl), Type: cyclonedx.ComponentTypeLibrary, Name: p.Name, Version: p.Version,
			PackageURL: purl,
		}))
	}
	d.dependencies = append(d.dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &parts})
	return ref
}

func (d *cyclonedxDocument) artifact(a pinset.LockedArtifact) string {
	repository, digest, _ := strings.Cut(a.Pin, "@")
	ref := d.add(cyclonedx.Component{
		BOMRef: key("Artifact", a.Pin), Type: cyclonedx.ComponentTypeData, Name: repository, Version: digest,
		PackageURL: imagePURL(a.Pin), Hashes: sha256Of(a.Manifest().Digest.Encoded()),
		Properties: properties(
			property{"from", a.From}, property{"tag", a.Tags}, property{"artifactType", []string{a.Type}}),
	})
	parts := []string{}
	for _, b := range a.Blobs[1:] { // each once
		parts = append(parts, d.add(cyclonedx.Component{
			BOMRef: "Blob-" + b.Digest.Encoded(), Type: cyclonedx.ComponentTypeFile, Name: "blob",
			Version: b.Digest.String(), Hashes: sha256Of(b.Digest.Encoded()),
			Properties: properties(property{"mediaType", []string{b.MediaType}}),
		}))
	}
	d.dependencies = append(d.dependencies, cyclonedx.Dependency{Ref: ref, Dependencies: &parts})
	return ref
}

func sha256Of(hex string) *[]cyclonedx.Hash {
	return &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex}}
}

// property is the name of some properties, and their values.
type property struct {
	name   string
	values []string
}

func properties(named ...property) *[]cyclonedx.Property {
	all := []cyclonedx.Property{}
	for _, p := range named {
		for _, value := range p.values {
			all = append(all, cyclonedx.Property{Name: "pinbox:" + p.name, Value: value})
		}
	}
	return &all
}
