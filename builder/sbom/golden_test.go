package sbom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	validator "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pinbox/pinbox/builder/sbom"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/storage/pinset"
)

func digestOf(c string) digest.Digest {
	return digest.NewDigestFromEncoded("sha256", strings.Repeat(c, 64))
}

// example has an image with packages, one that has the same layer and a database that was not read,
// and an OCI artifact.
func example() sbom.Inventory {
	layer := &pinset.LockedLayer{
		Digest: digestOf("1"), Size: 1000, DiffID: digestOf("2"), MediaType: "application/vnd.oci.image.layer.v1.tar+gzip",
	}
	app, other := "quay.io/site/app@"+digestOf("a").String(), "quay.io/site/other@"+digestOf("b").String()
	return sbom.Inventory{
		Platform: "linux/amd64", Created: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Images: []sbom.Image{
			{
				LockedImage: pinset.LockedImage{
					Pin: app, Tags: []string{"quay.io/site/app:1"}, Manifest: digestOf("a"), Config: digestOf("c"),
					From: []string{"PinnedImageSet/worker"}, Layers: []*pinset.LockedLayer{layer, layer},
				},
				Packages: []sbom.Package{
					{Type: "deb", Distro: "debian", DistroVersion: "12", Name: "libc6", Version: "2.36-9+deb12u4", Arch: "amd64",
						Source: "glibc"},
					{Type: "rpm", Distro: "rhel", DistroVersion: "9.4", Name: "bash", Version: "5.1.8-9.el9", Arch: "x86_64",
						Epoch: "1", Source: "bash-5.1.8-9.el9.src.rpm"},
				},
			},
			{
				LockedImage: pinset.LockedImage{
					Pin: other, Manifest: digestOf("d"), Config: digestOf("e"), From: []string{"a", "b"},
					Layers: []*pinset.LockedLayer{layer},
				},
				Unread: []string{"var/lib/rpm/Packages: not a database of rpm that can be read"},
			},
		},
		Artifacts: []pinset.LockedArtifact{{
			Pin: "quay.io/site/model@" + digestOf("f").String(), Tags: []string{"quay.io/site/model:7"},
			Type: "application/vnd.site.model", From: []string{"PinnedImageSet/worker"},
			Blobs: []pinset.LockedBlob{
				{Digest: digestOf("f"), Size: 500, MediaType: "application/vnd.oci.image.manifest.v1+json"},
				{Digest: digestOf("3"), Size: 2, MediaType: "application/vnd.oci.empty.v1+json"},
				{Digest: digestOf("4"), Size: 40_000_000_000, MediaType: "application/vnd.site.weights"},
			},
		}},
	}
}

// The documents are read by the libraries of their formats, and are valid.
func TestDocumentsGolden(t *testing.T) {
	text := map[string][]byte{}
	for format, write := range sbom.Formats() {
		var b bytes.Buffer
		if err := write(example(), &b, "v1.2.3"); err != nil {
			t.Fatal(err)
		}
		fixtures.Golden(t, "sbom."+format+".json", b.Bytes())
		text[format] = b.Bytes()
	}
	want := map[string][]string{example().Images[0].Pin: {
		"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12&upstream=glibc",
		"pkg:rpm/rhel/bash@5.1.8-9.el9?arch=x86_64&distro=rhel-9.4&epoch=1&upstream=bash-5.1.8-9.el9.src.rpm",
	}}
	if diff := cmp.Diff(want, readSPDX(t, text["spdx"])); diff != "" {
		t.Errorf("SPDX: want -, got +:\n%s", diff)
	}
	if diff := cmp.Diff(want, readCycloneDX(t, text["cyclonedx"])); diff != "" {
		t.Errorf("CycloneDX: want -, got +:\n%s", diff)
	}
	schema := cyclonedxSchema(t)
	document, err := validator.UnmarshalJSON(bytes.NewReader(text["cyclonedx"]))
	if err == nil {
		err = schema.Validate(document)
	}
	if err != nil {
		t.Errorf("got %v, want a document of the schema of CycloneDX 1.6", err)
	}
	document.(map[string]any)["components"].([]any)[0].(map[string]any)["type"] = "box"
	if err := schema.Validate(document); err == nil {
		t.Error("got no error for a component of type box, want one")
	}
}

// cyclonedxSchema reads the schema in the sources of the library.
func cyclonedxSchema(t *testing.T) *validator.Schema {
	t.Helper()
	dir := strings.TrimSpace(fixtures.Run(t, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go"))
	compiler := validator.NewCompiler()
	const base = "http://cyclonedx.org/schema/"
	for id, file := range map[string]string{
		"bom-1.6.schema.json": "bom-1.6.schema.json", "spdx.schema.json": "spdx.schema.json",
		"jsf-0.82.schema.json": "jsf-0.82.schemax.json",
	} {
		text, err := os.ReadFile(filepath.Join(dir, "schema", file))
		if err != nil {
			t.Fatal(err)
		}
		var content any
		if err := json.Unmarshal(text, &content); err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(base+id, content); err != nil {
			t.Fatal(err)
		}
	}
	return compiler.MustCompile(base + "bom-1.6.schema.json")
}
