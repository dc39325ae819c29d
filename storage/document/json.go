package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v3"
)

// isJSON reports whether a stream is a sequence of JSON objects or lists. A stream that begins with two
// of them is meant to be one, so anything else after these is an error. Other streams may be YAML in
// braces, or YAML documents with JSON.
func isJSON(content []byte) (bool, error) {
	if start := bytes.TrimLeft(content, " \t\r\n"); len(start) == 0 || start[0] != '{' && start[0] != '[' {
		return false, nil
	}
	dec, end := json.NewDecoder(bytes.NewReader(content)), int64(0)
	for values := 0; ; values++ {
		var value json.RawMessage
		err := dec.Decode(&value)
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil && values < 2:
			return false, nil
		case err != nil:
			return false, fmt.Errorf("line %d: after %d JSON values: %w", lineAt(content, end), values, err)
		}
		end = dec.InputOffset()
	}
}

func lineAt(content []byte, offset int64) int { return bytes.Count(content[:offset], []byte("\n")) + 1 }

// parseJSON makes nodes of a stream that isJSON accepts. A YAML parser refuses some JSON, such as the
// surrogate pairs of \u escapes that Python writes for emojis.
func parseJSON(content []byte) (roots []*yaml.Node, err error) {
	r := jsonReader{content: content, dec: json.NewDecoder(bytes.NewReader(content)), line: 1}
	r.dec.UseNumber() // keep the text of a number
	for {
		root, err := r.node()
		if errors.Is(err, io.EOF) {
			return roots, nil
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", r.line, err)
		}
		if root.ShortTag() != "!!null" {
			roots = append(roots, root)
		}
	}
}

type jsonReader struct {
	content []byte
	dec     *json.Decoder
	line    int   // of the byte at offset
	offset  int64 // of the end of the last token
}

// node reads the next value. isJSON has checked that its depth is within the limit of encoding/json,
// 10,000.
func (r *jsonReader) node() (*yaml.Node, error) {
	token, err := r.dec.Token()
	if err != nil {
		return nil, err
	}
	// A token does not span lines, so it begins in the line in which it ends.
	end := r.dec.InputOffset()
	r.line, r.offset = r.line+bytes.Count(r.content[r.offset:end], []byte("\n")), end
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line}
	switch token := token.(type) {
	case json.Delim:
		n.Kind = yaml.MappingNode
		if token == '[' {
			n.Kind = yaml.SequenceNode
		}
		for r.dec.More() {
			child, err := r.node()
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		_, err = r.dec.Token() // the closing delimiter
	case string:
		n.Tag, n.Style, n.Value = "!!str", yaml.DoubleQuotedStyle, token
	case nil:
		n.Value = "null"
	default: // a number, true or false
		n.Value = fmt.Sprint(token)
	}
	return n, err
}
