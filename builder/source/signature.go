package source

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
)

// ErrNoSignature is returned if the files have no signature of a release.
var ErrNoSignature = fault.New(fault.Damaged, "no signature of the release",
	"download it from mirror.openshift.com/pub/openshift-v4/signatures, or use the one that oc-mirror saved")

// Signatures of a release.
type Signatures struct {
	// Files are signatures, ConfigMaps of them, or folders with sha256=<hex>/signature-1.
	Files []string `yaml:"files,omitempty" jsonschema:"example=signatures/"`
	// Keys are the trusted OpenPGP keys.
	Keys []string `yaml:"keys,omitempty" jsonschema:"example=redhat.asc"`
}

// given reports whether one of the fields is set, even to an empty list.
func (s Signatures) given() bool { return s.Files != nil || s.Keys != nil }

func (s Signatures) paths() []*string { return append(pointers(s.Files), pointers(s.Keys)...) }

// Verify checks that a trusted key made one of the signatures of a release: those in the files, or
// those found with the release. Without keys it accepts all.
func (s Signatures) Verify(release digest.Digest, found [][]byte) error {
	if len(s.Keys) == 0 {
		return nil
	}
	keys, err := s.readKeys()
	if err != nil {
		return err
	}
	var errs []error
	anyValid := func(signatures [][]byte) bool {
		return slices.ContainsFunc(signatures, func(signature []byte) bool {
			err := storage.VerifySigned(signature, keys, release)
			errs = append(errs, err)
			return err == nil
		})
	}
	if anyValid(found) {
		return nil
	}
	for _, name := range s.Files {
		signatures, err := ReadSignatures(name, release)
		errs = append(errs, err)
		if anyValid(signatures) {
			return nil
		}
	}
	if len(errs) == 0 {
		return ErrNoSignature
	}
	return errors.Join(errs...)
}

func (s Signatures) readKeys() (keys [][]byte, err error) {
	var errs []error
	for _, name := range s.Keys {
		key, err := input.Read(name)
		if err == nil {
			if err = storage.CheckKey(key); err != nil {
				err = fmt.Errorf("%s: %w", name, err)
			}
		}
		keys, errs = append(keys, key), append(errs, err)
	}
	return keys, errors.Join(errs...)
}

// check checks the keys, and that the files are there, before a release is known.
func (s Signatures) check() error {
	_, err := s.readKeys()
	errs := []error{err}
	for _, name := range s.Files {
		_, err := os.Stat(name)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ReadSignatures reads the signatures of a digest: from a folder with the layout of
// mirror.openshift.com (sha256=<hex>/signature-1), from ConfigMaps as oc-mirror and `oc image
// mirror` write them (binaryData sha256-<hex>-1), or from a file that is one signature.
func ReadSignatures(path string, d digest.Digest) ([][]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return signatureFolder(filepath.Join(path, "sha256="+d.Encoded()))
	}
	content, err := input.Read(path)
	if err != nil {
		return nil, err
	}
	if !hasObjects(path) {
		return [][]byte{content}, nil
	}
	return configMaps(path, content, "sha256-"+d.Encoded()+"-")
}

func signatureFolder(dir string) (all [][]byte, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "signature-*"))
	if err != nil || len(names) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", dir, ErrNoSignature))
	}
	for _, name := range names {
		content, err := input.Read(name)
		if err != nil {
			return nil, err
		}
		all = append(all, content)
	}
	return all, nil
}

func configMaps(path string, content []byte, prefix string) (all [][]byte, err error) {
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var m struct {
			Kind       string
			BinaryData map[string]string `yaml:"binaryData"`
		}
		err := dec.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w: %w", path, ErrNoSignature, err)
		}
		for name, text := range m.BinaryData {
			if m.Kind != "ConfigMap" || !strings.HasPrefix(name, prefix) {
				continue
			}
			signature, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w: binaryData %s: %w", path, ErrNoSignature, name, err)
			}
			all = append(all, signature)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: %w: no ConfigMap has binaryData %s1", path, ErrNoSignature, prefix)
	}
	return all, nil
}
