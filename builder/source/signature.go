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
)

// ErrNoSignature says that nobody has signed a release, as far as the files tell.
var ErrNoSignature = errors.New("no signature of the release")

// ReadSignatures finds the signatures of a digest: in a folder of the layout of
// mirror.openshift.com (sha256=<hex>/signature-1), in ConfigMaps as oc-mirror and
// `oc image mirror` write them (binaryData sha256-<hex>-1), or in a file that is
// one.
func ReadSignatures(path string, d digest.Digest) ([][]byte, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if fi.IsDir() {
		return signatureFolder(filepath.Join(path, "sha256="+d.Encoded()))
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	if !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)) {
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
		content, err := os.ReadFile(name)
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
