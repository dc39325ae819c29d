package sbom_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"

	"github.com/pinbox/pinbox/builder"
	"github.com/pinbox/pinbox/builder/artifact"
	builderformat "github.com/pinbox/pinbox/builder/format"
	"github.com/pinbox/pinbox/builder/sbom"
	"github.com/pinbox/pinbox/fixtures"
	"github.com/pinbox/pinbox/fixtures/appliance"
	"github.com/pinbox/pinbox/fixtures/sample"
	"github.com/pinbox/pinbox/storage/root"
)

func TestMain(m *testing.M) {
	if root.Init() {
		return
	}
	code := m.Run()
	fixtures.RemovePrograms()
	os.Exit(code)
}

const (
	release = "ID=debian\nVERSION_ID=\"12\"\n"
	below   = "Package: libc6\nStatus: install ok installed\nArchitecture: amd64\nSource: glibc (2.36)\nVersion: 2.36-9+deb12u4\n" +
		"Description: text\n Package: none\n\nPackage: gone\nStatus: deinstall ok config-files\nVersion: 1\n"
	above = below + "\nPackage: bash\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2.15-2+b2\n"
	apk   = "C:Q1x=\nP:musl\nV:1.2.4-r2\nA:x86_64\no:musl\n\nP:libcrypto3\nV:3.1.4-r5\nA:x86_64\no:openssl\n"
)

// images are images by what their layers have, the lowest first, and the package URLs that are wanted.
var images = map[string]struct {
	layers [][]sample.Entry
	want   []string
}{
	"debian": {
		[][]sample.Entry{
			{sample.File("usr/lib/os-release", release), sample.Symlink("etc/os-release", "../usr/lib/os-release"),
				sample.File("var/lib/dpkg/status", below)},
			{sample.File("var/lib/dpkg/status", above)},
		},
		[]string{
			"pkg:deb/debian/bash@5.2.15-2%2Bb2?arch=amd64&distro=debian-12",
			"pkg:deb/debian/libc6@2.36-9%2Bdeb12u4?arch=amd64&distro=debian-12&upstream=glibc",
		},
	},
	"whiteout": {
		[][]sample.Entry{
			{sample.File("var/lib/dpkg/status", below), sample.File("lib/apk/db/installed", apk)},
			{sample.Whiteout("var/lib/dpkg/status")},
			{sample.Dir("etc")},
		},
		[]string{"pkg:apk/libcrypto3@3.1.4-r5?arch=x86_64&upstream=openssl", "pkg:apk/musl@1.2.4-r2?arch=x86_64"},
	},
	"opaque": {
		[][]sample.Entry{
			{sample.File("var/lib/dpkg/status", below)},
			{sample.Dir("var"), sample.Opaque("var"), sample.File("var/other", "")},
		},
		nil,
	},
	"hardlink": {
		[][]sample.Entry{
			{sample.File("a/object", apk), sample.Hardlink("lib/apk/db/installed", "a/object")},
		},
		[]string{"pkg:apk/libcrypto3@3.1.4-r5?arch=x86_64&upstream=openssl", "pkg:apk/musl@1.2.4-r2?arch=x86_64"},
	},
	"link": {
		[][]sample.Entry{
			{sample.File("var/lib/dpkg/status", below)},
			{sample.Symlink("var/lib/dpkg/status", "/etc/passwd")},
		},
		nil,
	},
	"distroless": {
		[][]sample.Entry{
			{sample.File("var/lib/dpkg/status.d/base", "Package: base-files\nVersion: 12\nArchitecture: all\n"),
				sample.File("var/lib/dpkg/status.d/base.md5sums", "d41d8cd98f00b204e9800998ecf8427e  usr/x\n"),
				sample.File("var/lib/dpkg/status.d/gone", "Package: gone\nVersion: 1\n")},
			{sample.Whiteout("var/lib/dpkg/status.d/gone"),
				sample.File("var/lib/dpkg/status.d/tzdata", "Package: tzdata\nVersion: 2024a\nArchitecture: all\n")},
		},
		[]string{"pkg:deb/base-files@12?arch=all", "pkg:deb/tzdata@2024a?arch=all"},
	},
}

// build builds a store of all images and an OCI artifact, in a format.
func build(t *testing.T, format string) (folder string, pins map[string]string) {
	t.Helper()
	registry, err := sample.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = registry.Close() })
	pins = map[string]string{}
	var all []string
	for name, image := range images {
		var layers []v1.Layer
		for _, entries := range image.layers {
			layer, err := sample.TarLayer(entries...)
			if err != nil {
				t.Fatal(err)
			}
			layers = append(layers, layer)
		}
		img, err := sample.Image("amd64", false, layers...)
		if err != nil {
			t.Fatal(err)
		}
		if pins[name], err = registry.Push(t.Context(), "site/"+name, img); err != nil {
			t.Fatal(err)
		}
		all = append(all, pins[name])
	}
	if pins["artifact"], err = registry.PushArtifact(t.Context(), "site/model", []string{"weights"}, []byte("1")); err != nil {
		t.Fatal(err)
	}
	o := appliance.Options(t, sample.Set("worker", append(all, pins["artifact"])...))
	if o.Appliance.Spec.Store.Format = builderformat.Name(format); builderformat.Name(format) == builderformat.Squashfs {
		o.Appliance.Spec.ISO.Base = fixtures.LiveISO(t)
	}
	if _, err := builder.Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return o.Out, pins
}

// The topmost database of an image wins, and what a layer has removed is not listed.
func TestInventory(t *testing.T) {
	for _, format := range builderformat.Names() {
		t.Run(format, func(t *testing.T) {
			if builderformat.Name(format) == builderformat.Dir {
				fixtures.NeedRoot(t)
			}
			folder, pins := build(t, format)
			v, err := sbom.Read(t.Context(), folder, nil)
			if err != nil {
				t.Fatal(err)
			}
			wantInventory(t, v, pins)
			if image := filepath.Join(folder, artifact.ISOFile); builderformat.Name(format) == builderformat.Squashfs {
				onISO, err := sbom.Read(t.Context(), image, nil)
				if diff := cmp.Diff(v, onISO); err != nil || diff != "" {
					t.Errorf("ISO: got %v, folder -, ISO +:\n%s", err, diff)
				}
			}
		})
	}
}

func wantInventory(t *testing.T, v sbom.Inventory, pins map[string]string) {
	t.Helper()
	if a := v.Artifacts; len(a) != 1 || a[0].Pin != pins["artifact"] || a[0].Type != sample.ArtifactType {
		t.Errorf("got the artifacts %+v, want %s", a, pins["artifact"])
	}
	text := map[string][]byte{}
	for format, write := range sbom.Formats() {
		var b, again bytes.Buffer
		if err := write(v, &b, "v1"); err != nil {
			t.Fatal(err)
		}
		if err := write(v, &again, "v1"); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Errorf("%s: got %v and other bytes the second time, want equal bytes", format, err)
		}
		text[format] = b.Bytes()
	}
	spdx, cyclonedx := readSPDX(t, text["spdx"]), readCycloneDX(t, text["cyclonedx"])
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(image.want, spdx[pins[name]]); diff != "" {
				t.Errorf("SPDX: want -, got +:\n%s", diff)
			}
			if diff := cmp.Diff(image.want, cyclonedx[pins[name]]); diff != "" {
				t.Errorf("CycloneDX: want -, got +:\n%s", diff)
			}
		})
	}
}

// readSPDX reads a document with the reader of the library, and returns the package URLs of each pin.
func readSPDX(t *testing.T, text []byte) map[string][]string {
	t.Helper()
	d, err := spdxjson.Read(bytes.NewReader(text))
	if err == nil {
		err = spdxlib.ValidateDocument(d)
	}
	if err != nil {
		t.Fatal(err)
	}
	purls, pin := map[string]string{}, map[string]string{}
	for _, p := range d.Packages {
		id := string(p.PackageSPDXIdentifier)
		if p.PrimaryPackagePurpose == "CONTAINER" || p.PrimaryPackagePurpose == "OTHER" { // an image or an artifact
			pin[id] = p.PackageName + "@" + p.PackageVersion
		} else if len(p.PackageExternalReferences) == 1 {
			purls[id] = p.PackageExternalReferences[0].Locator
		}
	}
	found := map[string][]string{}
	for _, r := range d.Relationships {
		if purl := purls[string(r.RefB.ElementRefID)]; purl != "" {
			name := pin[string(r.RefA.ElementRefID)]
			found[name] = append(found[name], purl)
		}
	}
	return sorted(found)
}

// readCycloneDX reads a document with the reader of the library, and returns the package URLs of each pin.
func readCycloneDX(t *testing.T, text []byte) map[string][]string {
	t.Helper()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bytes.NewReader(text), cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	components := map[string]cyclonedx.Component{}
	for _, c := range *bom.Components {
		if _, ok := components[c.BOMRef]; ok {
			t.Errorf("got two components %s, want one", c.BOMRef)
		}
		components[c.BOMRef] = c
	}
	found := map[string][]string{}
	for _, d := range *bom.Dependencies {
		for _, ref := range *d.Dependencies {
			part, ok := components[ref]
			if !ok {
				t.Errorf("got a dependency on %s, want a component of that name", ref)
			}
			if whole := components[d.Ref]; part.Type == cyclonedx.ComponentTypeLibrary {
				name := whole.Name + "@" + whole.Version
				found[name] = append(found[name], part.PackageURL)
			}
		}
	}
	return sorted(found)
}

func sorted(found map[string][]string) map[string][]string {
	for _, all := range found {
		slices.Sort(all)
	}
	return found
}

// A folder without a store has no inventory.
func TestNoInventory(t *testing.T) {
	if _, err := sbom.Read(t.Context(), t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "no store to read packages from") {
		t.Errorf("got %v, want %v", err, sbom.ErrNoStore)
	}
	junk := filepath.Join(t.TempDir(), "store.squashfs")
	if err := os.WriteFile(junk, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := sbom.Read(t.Context(), filepath.Dir(junk), nil); err == nil {
		t.Error("junk: got no error, want one")
	}
}
