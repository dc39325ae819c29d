package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxBytes of a stream.
const maxBytes = 64 << 20

// ErrTooLarge says that a stream, or what its aliases stand for, is more than any
// cluster has.
var ErrTooLarge = errors.New("too large")

// Read gives the roots of all documents of a stream that are not empty: YAML documents
// between lines of "---", or JSON values one after the other, as `jq .items[]` prints
// them. What an alias stands for is in its place, and what "<<" merges in its mapping,
// so a node may stand in several places. Errors tell the line.
func Read(r io.Reader) (roots []*yaml.Node, err error) {
	content, err := ReadAll(r)
	if err != nil {
		return nil, err
	}
	content = bytes.TrimPrefix(content, []byte("\ufeff")) // of editors on Windows
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

// ReadAll gives the text of a stream that is not larger than those that Read takes.
func ReadAll(r io.Reader) ([]byte, error) {
	content, err := io.ReadAll(io.LimitReader(r, maxBytes+1))
	if err == nil && len(content) > maxBytes {
		err = fmt.Errorf("%w: more than %d MiB", ErrTooLarge, maxBytes>>20)
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

// Entry is the key of a mapping with its value; both are nil where there is none.
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

// Field is the value of a key, nil where there is none.
func Field(n *yaml.Node, key string) *yaml.Node {
	_, value := Entry(n, key)
	return value
}

// Text is that of a scalar, "" where there is none.
func Text(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}
