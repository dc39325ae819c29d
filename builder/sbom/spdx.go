package sbom

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/pinbox/pinbox/storage/pinset"
)

// SPDX writes the inventory as SPDX 2.3 in JSON. version is that of pinbox.
func (v Inventory) SPDX(w io.Writer, version string) error {
	sum, err := v.sum()
	if err != nil {
		return err
	}
	d := spdxDocument{done: map[common.ElementID]bool{}, Document: &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: "pinbox store",
		DocumentNamespace: "https://spdx.org/spdxdocs/pinbox-" + uuid(sum),
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "pinbox-" + version}},
			Created:  v.Created.UTC().Format(time.RFC3339),
		},
	}}
	d.relate("DOCUMENT", "DESCRIBES", d.add("Store", &spdx.Package{
		PackageName: "pinbox store", PackageComment: "platform " + string(v.Platform),
	}))
	for _, img := range v.Images {
		d.image(img)
	}
	for _, a := range v.Artifacts {
		d.artifact(a)
	}
	return spdxjson.Write(d.Document, w, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
}

// sum is a digest of the inventory.
func (v Inventory) sum() ([sha256.Size]byte, error) {
	text, err := json.Marshal(v)
	return sha256.Sum256(text), err
}

// uuid makes a UUID of version 8, which a vendor may make of anything: RFC 9562, 5.8.
func uuid(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	h := hex.EncodeToString(sum[:16])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// key makes an identifier of any text.
func key(kind, text string) string {
	sum := sha256.Sum256([]byte(text))
	return kind + "-" + hex.EncodeToString(sum[:])
}

// spdxDocument is a document that is made.
type spdxDocument struct {
	*spdx.Document
	done map[common.ElementID]bool
}

// add adds a package, unless it was added before.
func (d *spdxDocument) add(id common.ElementID, p *spdx.Package) common.ElementID {
	if !d.done[id] {
		d.done[id] = true
		p.PackageSPDXIdentifier, p.PackageDownloadLocation = id, "NOASSERTION"
		d.Packages = append(d.Packages, p)
	}
	return id
}

func (d *spdxDocument) relate(a common.ElementID, how string, b common.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: common.DocElementID{ElementRefID: a}, RefB: common.DocElementID{ElementRefID: b}, Relationship: how,
	})
}

func (d *spdxDocument) image(img Image) {
	repository, digest, _ := strings.Cut(img.Pin, "@")
	comments := []string{"manifest " + img.Manifest.String(), "configuration " + img.Config.String()}
	for _, tag := range img.Tags {
		comments = append(comments, "tag "+tag)
	}
	for _, why := range img.Unread {
		comments = append(comments, "packages not read: "+why)
	}
	id := d.add(common.ElementID(key("Image", img.Pin)), &spdx.Package{
		PackageName: repository, PackageVersion: digest, PackageSourceInfo: "asked for by " + strings.Join(img.From, ", "),
		PackageComment: strings.Join(comments, "\n"), PrimaryPackagePurpose: "CONTAINER",
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: img.Manifest.Encoded()}},
		PackageExternalReferences: purlReference(imagePURL(img.Pin)),
	})
	d.relate("Store", "CONTAINS", id)
	for _, l := range img.Layers {
		d.relate(id, "CONTAINS", d.add(common.ElementID("Layer-"+l.Digest.Encoded()), &spdx.Package{
			PackageName: "layer", PackageVersion: l.Digest.String(), PrimaryPackagePurpose: "ARCHIVE",
			PackageComment:   fmt.Sprintf("DiffID %s, %d bytes, %s", l.DiffID, l.Size, l.MediaType),
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: l.Digest.Encoded()}},
		}))
	}
	for _, p := range img.Packages {
		purl := p.purl()
		d.relate(id, "CONTAINS", d.add(common.ElementID(key("Package", purl)), &spdx.Package{
			PackageName: p.Name, PackageVersion: p.Version, PackageExternalReferences: purlReference(purl),
		}))
	}
}

func (d *spdxDocument) artifact(a pinset.LockedArtifact) {
	repository, digest, _ := strings.Cut(a.Pin, "@")
	comments := []string{"artifactType " + a.Type}
	for _, tag := range a.Tags {
		comments = append(comments, "tag "+tag)
	}
	id := d.add(common.ElementID(key("Artifact", a.Pin)), &spdx.Package{
		PackageName: repository, PackageVersion: digest, PackageSourceInfo: "asked for by " + strings.Join(a.From, ", "),
		PackageComment: strings.Join(comments, "\n"), PrimaryPackagePurpose: "OTHER",
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: a.Manifest().Digest.Encoded()}},
		PackageExternalReferences: purlReference(imagePURL(a.Pin)),
	})
	d.relate("Store", "CONTAINS", id)
	for _, b := range a.Blobs[1:] {
		d.relate(id, "CONTAINS", d.add(common.ElementID("Blob-"+b.Digest.Encoded()), &spdx.Package{
			PackageName: "blob", PackageVersion: b.Digest.String(), PrimaryPackagePurpose: "FILE",
			PackageComment:   fmt.Sprintf("%d bytes, %s", b.Size, b.MediaType),
			PackageChecksums: []common.Checksum{{Algorithm: common.SHA256, Value: b.Digest.Encoded()}},
		}))
	}
}

func purlReference(purl string) []*spdx.PackageExternalReference {
	return []*spdx.PackageExternalReference{{
		Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: purl,
	}}
}

// imagePURL is the package URL of a pin.
func imagePURL(pin string) string {
	img, err := pinset.ParseImage(pin)
	if err != nil { // locks have no such pins
		return ""
	}
	name := img.Repository[strings.LastIndexByte(img.Repository, '/')+1:]
	return "pkg:oci/" + escape(name) + "@" + escape(img.Digest.String()) + "?repository_url=" + escape(img.Repository)
}
