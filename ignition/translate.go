package ignition

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"strings"

	butane "github.com/coreos/butane/config"
	butanecommon "github.com/coreos/butane/config/common"
	ign "github.com/coreos/ignition/v2/config"
	igntypes "github.com/coreos/ignition/v2/config/v3_6_experimental/types"
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
	_, findings, err := ign.Parse(config)
	if err != nil {
		return fmt.Errorf("%w: %w: %s", ErrButane, err, oneLine(findings.String()))
	}
	if len(findings.Entries) > 0 {
		return fmt.Errorf("%w: %s", ErrButane, oneLine(findings.String()))
	}
	return nil
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
	u, err := dataurl.DecodeString(*r.Source)
	if err != nil {
		return nil, err
	}
	if r.Compression == nil || *r.Compression != "gzip" {
		return u.Data, nil
	}
	z, err := gzip.NewReader(bytes.NewReader(u.Data))
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(z, maxContent+1))
	if len(content) > maxContent {
		return nil, fmt.Errorf("more than %d MiB", maxContent>>20)
	}
	return content, err
}
