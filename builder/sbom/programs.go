package sbom

import (
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// Programs writes the inventory of Go programs as SPDX 2.3 in JSON: the modules that each is linked with, as
// `go version -m` shows them. created is the time of the release, version that of pinbox. C libraries are not in it.
func Programs(w io.Writer, created time.Time, version string, files ...string) error {
	all := sha256.New()
	d := spdxDocument{done: map[common.ElementID]bool{}, Document: &spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: "pinbox " + version,
		CreationInfo: &spdx.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "pinbox-" + version}},
			Created:  created.UTC().Format(time.RFC3339),
		},
	}}
	for _, file := range files {
		sum, err := d.program(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		_, _ = all.Write(sum) // a hash does not fail
	}
	d.DocumentNamespace = "https://spdx.org/spdxdocs/pinbox-" + uuid([sha256.Size]byte(all.Sum(nil)))
	return spdxjson.Write(d.Document, w, spdxjson.Indent("  "), spdxjson.EscapeHTML(false))
}

// program adds a program and its modules, and returns its SHA-256.
func (d *spdxDocument) program(file string) (sum []byte, err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(content)
	name := filepath.Base(file)
	id := d.add(common.ElementID(key("Program", name)), &spdx.Package{
		PackageName: name, PackageVersion: info.Main.Version, PackageComment: "built by " + info.GoVersion,
		PrimaryPackagePurpose:     "APPLICATION",
		PackageChecksums:          []common.Checksum{{Algorithm: common.SHA256, Value: hex.EncodeToString(hash[:])}},
		PackageExternalReferences: purlReference(modulePURL(info.Main)),
	})
	d.relate("DOCUMENT", "DESCRIBES", id)
	standard := debug.Module{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}
	for _, m := range append([]*debug.Module{&standard}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		purl := modulePURL(*m)
		d.relate(id, "CONTAINS", d.add(common.ElementID(key("Module", purl)), &spdx.Package{
			PackageName: m.Path, PackageVersion: m.Version, PackageExternalReferences: purlReference(purl),
			PrimaryPackagePurpose: "LIBRARY",
		}))
	}
	return hash[:], nil
}

// modulePURL is the package URL of a Go module: https://github.com/package-url/purl-spec, types golang.
func modulePURL(m debug.Module) string {
	return "pkg:golang/" + strings.ToLower(m.Path) + "@" + escape(m.Version)
}
