package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/fault"
)

// MaxBytes is the largest stream, in bytes.
const MaxBytes = 64 << 20

// ErrTooLarge reports that a stream, or what its aliases expand to, exceeds the limits.
var ErrTooLarge = fault.New(fault.Input, "too large",
	"split the file, or replace its aliases with what they stand for")

// Read returns the root of each document of a stream that is not empty: YAML documents between lines
// of "---", or a sequence of JSON values, as `jq .items[]` prints them. Aliases are replaced by the
// nodes that they refer to, and "<<" by the keys that it merges, so a node may have several parents.
// Errors have the line.
func Read(r io.Reader) (roots []*yaml.Node, err error) {
	content, err := ReadAll(r)
	if err != nil {
		return nil, err
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // editors on Windows write it
	asJSON, err := isJSON(content)
	if err != nil {
		return nil, err
	}
	if asJSON {
		roots, err = parseJSON(content)
	} else {
		roots, err = parseYAML(content)
	}
	seen := map[*yaml.Node]bool{}
	for i := 0; i < len(roots) && err == nil; i++ {
		err = keys(roots[i], seen)
	}
	if err != nil {
		return nil, err
	}
	return roots, nil
}

// ReadAll reads a stream of at most MaxBytes, as Read does. The error is ErrTooLarge if it is larger.
func ReadAll(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	if err == nil && len(content) > MaxBytes {
		err = fmt.Errorf("%w: more than %d MiB", ErrTooLarge, MaxBytes>>20)
	}
	if err != nil {
		return nil, err
	}
	return content, nil
}

func parseYAML(content []byte) (roots []*yaml.Node, err error) {
	aliases := resolver{left: maxAliased}
	for dec := yaml.NewDecoder(bytes.NewReader(content)); ; {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err == nil {
			err = aliases.document(&doc)
		}
		if err != nil {
			return nil, err
		}
		for _, root := range doc.Content {
			if root.ShortTag() != "!!null" {
				roots = append(roots, root)
			}
		}
	}
}

// Entry returns a key of a mapping and its value, or nil if n is not a mapping with that key.
func Entry(n *yaml.Node, key string) (k, value *yaml.Node) {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil, nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// Field returns the value of a key, or nil if n is not a mapping with that key.
func Field(n *yaml.Node, key string) *yaml.Node {
	_, value := Entry(n, key)
	return value
}

// Text returns the text of a scalar, or "" if n is null or not a scalar.
func Text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}
