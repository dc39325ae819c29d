package document

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"
)

const (
	// maxAliased is how many nodes the aliases of a stream may add to its own.
	maxAliased = 1 << 20
	// maxDepth of nodes; the limit of yaml.v3, which does not count aliases, is lower.
	maxDepth = 1 << 15
)

// resolver replaces aliases by the nodes that they refer to, and merges "<<".
type resolver struct {
	// left is how many nodes the documents of the stream may still have.
	left int
	// done has the extents of the nodes that are resolved, and a zero extent for those that are
	// being resolved.
	done map[*yaml.Node]extent
}

// document resolves the next document. All documents of a stream share the limit for aliases: else
// there would be no limit for a file of many small documents.
func (r *resolver) document(doc *yaml.Node) error {
	r.left += count(doc)
	r.done = map[*yaml.Node]extent{}
	all, err := r.node(doc)
	r.left -= all.nodes
	return err
}

func count(n *yaml.Node) int {
	nodes := 1
	for _, child := range n.Content {
		nodes += count(child)
	}
	return nodes
}

// extent is the size of a node with all that its aliases expand to.
type extent struct{ nodes, depth int }

func (r *resolver) node(n *yaml.Node) (extent, error) {
	all, seen := r.done[n]
	if seen {
		return all, nil
	}
	r.done[n] = extent{}
	for i, child := range n.Content {
		of := child
		if child.Kind == yaml.AliasNode {
			of = child.Alias
		}
		e, err := r.node(of)
		if err == nil && e == (extent{}) {
			err = fmt.Errorf("line %d: an alias refers to a node that contains it", child.Line)
		}
		if err != nil {
			return all, err
		}
		all = extent{all.nodes + e.nodes, max(all.depth, e.depth)}
		if all.nodes >= r.left || all.depth >= maxDepth {
			return all, fmt.Errorf("line %d: %w: with the nodes that its aliases refer to", child.Line, ErrTooLarge)
		}
		n.Content[i] = target(child)
	}
	all = extent{all.nodes + 1, all.depth + 1}
	r.done[n] = all
	return all, merge(n)
}

// target returns the node that an alias refers to, and any other node itself. A scalar gets the line of
// the alias, which is where an error in its value belongs.
func target(n *yaml.Node) *yaml.Node {
	switch {
	case n.Kind != yaml.AliasNode:
		return n
	case n.Alias.Kind != yaml.ScalarNode:
		return n.Alias
	}
	scalar := *n.Alias
	scalar.Line, scalar.Column = n.Line, n.Column
	return &scalar
}

// merge adds the keys of the mappings of "<<" to the mapping. Its own keys have priority, then those
// of the first mapping that has them.
func merge(n *yaml.Node) error {
	if n.Kind != yaml.MappingNode || !slices.ContainsFunc(n.Content, isMerge) {
		return nil
	}
	var own []*yaml.Node
	var merged []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		switch {
		case !isMerge(key):
			own = append(own, key, value)
		case value.Kind == yaml.SequenceNode:
			merged = append(merged, value.Content...)
		default:
			merged = append(merged, value)
		}
	}
	has := map[string]bool{}
	for i := 0; i < len(own); i += 2 {
		has[own[i].Value] = true
	}
	for _, m := range merged {
		if m.Kind != yaml.MappingNode {
			return fmt.Errorf("line %d: << takes a mapping, or a list of them", m.Line)
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			if key := m.Content[i]; !has[key.Value] {
				has[key.Value] = true
				own = append(own, key, m.Content[i+1])
			}
		}
	}
	n.Content = own
	return nil
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && n.ShortTag() == "!!merge"
}
