package document

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// keys refuses keys that occur twice in a mapping with different values: YAML forbids them, and
// parsers differ in the value that they use. Keys with equal values are accepted, since some Helm
// charts repeat labels.
func keys(n *yaml.Node, seen map[*yaml.Node]bool) error {
	if n.Kind == yaml.ScalarNode || seen[n] {
		return nil
	}
	seen[n] = true
	if n.Kind == yaml.MappingNode {
		first := map[string]int{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key, value := n.Content[i], n.Content[i+1]
			before, twice := first[key.Value]
			if !twice || key.Kind != yaml.ScalarNode {
				first[key.Value] = i
				continue
			}
			if other := n.Content[before+1]; value.Kind != yaml.ScalarNode || other.Kind != yaml.ScalarNode ||
				value.Value != other.Value {
				return fmt.Errorf("line %d: key %q is also in line %d, with another value", key.Line, key.Value,
					n.Content[before].Line)
			}
		}
	}
	for _, child := range n.Content {
		if err := keys(child, seen); err != nil {
			return err
		}
	}
	return nil
}
