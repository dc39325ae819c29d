package ignition

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	butane "github.com/coreos/butane/config"
	butanecommon "github.com/coreos/butane/config/common"
	ign "github.com/coreos/ignition/v2/config"
	igntypes "github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	"github.com/vincent-petithory/dataurl"
)

// Translate translates Butane to Ignition, and validates the result. Warnings are errors, since
// a node that boots shows them to no one.
func Translate(doc []byte) ([]byte, error) { return translate(doc, "") }

// translate embeds local files from dir.
func translate(doc []byte, dir string) ([]byte, error) {
	out, findings, err := butane.TranslateBytes(doc, butanecommon.TranslateBytesOptions{
		TranslateOptions: butanecommon.TranslateOptions{FilesDir: dir},
		Pretty:           true,
		Raw:              true, // Ignition, and not a MachineConfig, for the openshift variant
	})
	if unknown := (butanecommon.ErrUnknownVersion{}); errors.As(err, &unknown) {
		return nil, unknownVersion(unknown)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w: %s", ErrButane, err, oneLine(findings.String()))
	}
	for _, f := range findings.Entries {
		// Each merged configuration was validated by itself, and may have any version.
		if f.Message != butanecommon.ErrUnkownIgnitionVersion.Error() {
			return nil, fmt.Errorf("%w: %s", ErrButane, oneLine(f.String()))
		}
	}
	if err := Validate(out); err != nil {
		return nil, err
	}
	return append(out, '\n'), nil
}

// Validate parses a configuration with Ignition's parser. Its warnings are errors.
func Validate(config []byte) error {
	_, warnings, err := parseStrictly(config)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrButane, err)
	}
	if warnings != "" {
		return fmt.Errorf("%w: %s", ErrButane, warnings)
	}
	return nil
}

// newest are the newest versions of the variants that the Butane in pinbox translates.
var newest = map[string]string{
	"fcos": "1.7.0", "flatcar": "1.1.0", "openshift": "4.22.0", "r4e": "1.1.0", "fiot": "1.0.0",
}

// unknownVersion returns an error that names the newest version of the variant, or the variants.
func unknownVersion(unknown butanecommon.ErrUnknownVersion) error {
	if known, ok := newest[unknown.Variant]; ok {
		return fmt.Errorf("%w: variant %s has version %s; this pinbox knows it up to %s",
			ErrVersion, unknown.Variant, unknown.Version.String(), known)
	}
	return fmt.Errorf("%w: variant %s; this pinbox knows %s",
		ErrVersion, unknown.Variant, strings.Join(slices.Sorted(maps.Keys(newest)), ", "))
}

func oneLine(s string) string {
	return strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r == '\n' }), "; ")
}

// Files returns the files of a configuration whose content is in it, by their paths. It does not
// read the configurations that are merged.
func Files(config []byte) (map[string][]byte, error) {
	c, _, err := ign.Parse(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrButane, err)
	}
	files := map[string][]byte{}
	for _, f := range c.Storage.Files {
		if f.Contents.Source == nil || !strings.HasPrefix(*f.Contents.Source, "data:") {
			continue
		}
		content, err := decode(f.Contents)
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", f.Path, ErrButane, err)
		}
		files[f.Path] = content
	}
	return files, nil
}

// maxContent is the unpacked size of a file in a configuration in bytes, as much as an Ignition area can have:
// gzip makes 64 KB of it.
const maxContent = 64 << 20

// decode returns the content that is in a configuration.
func decode(r igntypes.Resource) ([]byte, error) {
	data, err := decodeURL(*r.Source)
	if err != nil {
		return nil, err
	}
	if r.Compression == nil || *r.Compression != "gzip" {
		return data, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(z, maxContent+1))
	if len(content) > maxContent {
		return nil, fmt.Errorf("more than %d MiB", maxContent>>20)
	}
	return content, err
}

// decodeURL returns the content of a data URL. The library looks at each byte of it on its own, which takes seconds for
// a program; so that of base64, as Butane writes it, is not left to it.
func decodeURL(source string) ([]byte, error) {
	if encoded, found := strings.CutPrefix(source, "data:;base64,"); found {
		if data, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return data, nil
		}
	}
	u, err := dataurl.DecodeString(source)
	if err != nil {
		return nil, err
	}
	return u.Data, nil
}
