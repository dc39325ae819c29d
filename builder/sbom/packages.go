package sbom

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
)

// kind is a kind of database.
type kind struct {
	name string
	// files are its possible paths, of which the first counts that is there; or folder has files of which all
	// count.
	files  []string
	folder string
	// read calls add for each package that is installed, and returns its first error.
	read func(content []byte, add func(Package) error) error
}

var kinds = []kind{
	{name: "deb", files: []string{"var/lib/dpkg/status"}, read: readDpkg},
	{name: "deb", folder: "var/lib/dpkg/status.d", read: readDpkg}, // of distroless images
	{name: "apk", files: []string{"lib/apk/db/installed", "usr/lib/apk/db/installed"}, read: readAPK},
	{name: "rpm", files: rpmFiles(), read: readRPM},
}

// maxField is the limit for each field of a package in bytes: that of a file name, as which a source package
// of rpm is named. Names and versions have less than a hundred.
const maxField = 255

// check refuses a package without a name, and fields that are no text of one line.
func (p Package) check() error {
	if p.Name == "" {
		return errors.New("a package without a name")
	}
	for _, field := range []string{p.Name, p.Version, p.Arch, p.Source} {
		if len(field) > maxField || strings.ContainsFunc(field, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return fmt.Errorf("%.100q is not a field of a package", field)
		}
	}
	return nil
}

// readDpkg reads the status file of dpkg: deb-control(5).
func readDpkg(content []byte, add func(Package) error) error {
	for fields := range stanzas(content, ": ", "Package", "Status", "Version", "Architecture", "Source") {
		if status, ok := fields["Status"]; ok && !strings.HasSuffix(status, " installed") {
			continue
		}
		if fields["Package"] == "" { // a file of checksums in status.d
			continue
		}
		source, _, _ := strings.Cut(fields["Source"], " ") // the version may follow
		err := add(Package{
			Name: fields["Package"], Version: fields["Version"], Arch: fields["Architecture"], Source: source,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// readAPK reads the installed database of apk: apk-tools, doc/apk-v2.5.scd.
func readAPK(content []byte, add func(Package) error) error {
	for fields := range stanzas(content, ":", "P", "V", "A", "o") {
		p := Package{Name: fields["P"], Version: fields["V"], Arch: fields["A"], Source: fields["o"]}
		if p.Source == p.Name {
			p.Source = ""
		}
		if err := add(p); err != nil {
			return err
		}
	}
	return nil
}

// stanzas yields the first values of the named fields, for each paragraph of a text. Lines that continue a
// field are left out.
func stanzas(content []byte, separator string, names ...string) iter.Seq[map[string]string] {
	return func(yield func(map[string]string) bool) {
		fields := map[string]string{}
		for line := range bytes.Lines(append(content, "\n\n"...)) {
			line = bytes.TrimRight(line, "\r\n")
			if len(line) == 0 {
				if len(fields) > 0 && !yield(fields) {
					return
				}
				fields = map[string]string{}
				continue
			}
			name, value, ok := bytes.Cut(line, []byte(separator))
			if ok && slices.Contains(names, string(name)) && fields[string(name)] == "" {
				fields[string(name)] = string(bytes.TrimSpace(value[:min(len(value), maxField+1)]))
			}
		}
	}
}

// purl returns the package URL: https://github.com/package-url/purl-spec
func (p Package) purl() string {
	var b strings.Builder
	b.WriteString("pkg:" + p.Type + "/")
	if p.Distro != "" {
		b.WriteString(escape(p.Distro) + "/")
	}
	b.WriteString(escape(p.Name))
	if p.Version != "" {
		b.WriteString("@" + escape(p.Version))
	}
	separator := "?"
	for _, q := range []struct{ name, value string }{
		{"arch", p.Arch}, {"distro", p.distro()}, {"epoch", p.Epoch}, {"upstream", p.Source},
	} {
		if q.value != "" {
			b.WriteString(separator + q.name + "=" + escape(q.value))
			separator = "&"
		}
	}
	return b.String()
}

// distro is the distribution as in package URLs, such as debian-12.
func (p Package) distro() string {
	if p.DistroVersion == "" {
		return p.Distro
	}
	return p.Distro + "-" + p.DistroVersion
}

// escape encodes all but the characters that a package URL has unencoded everywhere.
func escape(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(".-_~:", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}
