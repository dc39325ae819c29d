package source

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// ErrPossible reports names that may be images, where the user asked to refuse them.
var ErrPossible = fault.New(fault.Input, "named but not taken",
	"add those that nodes pull with --image, or all of them with --possible-images take")

// Possible is a name that may be an image of a node: it stands where nothing says that a pod runs it, or its parts do.
type Possible struct {
	Image     Field
	Reference pinset.Reference
	// Object is the kind of the object with its group, and its name.
	Object string
	// Path leads from the object to the name, as spec.driver.image.
	Path string
}

const (
	// maxNesting is how deep texts may stand in texts.
	maxNesting = 6
	// maxUnpacked limits the texts in texts of all inputs, in bytes: each level of nesting may decode all of it again.
	maxUnpacked = 4 * document.MaxBytes
	// minEncoded is the shortest text that is tried as base64.
	minEncoded = 40
)

// text looks for names in a value: it may be a name, contain some, or be YAML, JSON or base64 of these.
func (w *walker) text(n *yaml.Node, key string, in object) {
	if in.none || w.taken[n] || key == "kubectl.kubernetes.io/last-applied-configuration" {
		return
	}
	if roots := w.nested(n); len(roots) > 0 {
		below := in
		below.nested, below.fields = true, podFields()
		path := w.path
		w.depth++
		for _, root := range roots {
			w.walk(root, key, below)
			w.path = path
		}
		w.depth--
		return
	}
	if !strings.ContainsAny(n.Value, "/:@") {
		return
	}
	for _, m := range mentions(n.Value, key) {
		line := lineOfText(n, m.line)
		if m.full && !in.nested && !in.unsure {
			w.Uses = append(w.Uses, Use{Image: Field{m.ref.String(), w.file, line}})
		} else {
			w.possible(Field{m.text, w.file, line}, m.ref, in)
		}
	}
}

// parts looks for names whose parts are values of a mapping.
func (w *walker) parts(n *yaml.Node, key string, in object) {
	if in.none {
		return
	}
	name, used := joinParts(n, imageKey(key), in.shared, w.taken)
	w.joined(name, used, in)
	for i := 0; i+1 < len(n.Content); i += 2 {
		if value := n.Content[i+1]; !w.taken[value] {
			name, used := joinBeside(n, n.Content[i].Value, value)
			w.joined(name, used, in)
		}
	}
}

// joined adds a name that was joined of values, which are no names by themselves.
func (w *walker) joined(name string, used []*yaml.Node, in object) {
	ref, _, err := pinset.Expand(name)
	if name == "" || err != nil {
		return
	}
	for _, value := range used {
		w.taken[value] = true
	}
	w.possible(Field{name, w.file, used[0].Line}, ref, in)
}

func (w *walker) possible(at Field, ref pinset.Reference, in object) {
	w.Possible = append(w.Possible, Possible{Image: at, Reference: ref, Object: in.name, Path: joinPath(w.path)})
}

func joinPath(path []string) string { return strings.ReplaceAll(strings.Join(path, "."), ".[", "[") }

// nested returns the documents in a text, which is YAML, JSON, or base64 of these, if they have keys or lists. Their
// nodes have the lines of the file.
func (w *walker) nested(n *yaml.Node) []*yaml.Node {
	text, plain := n.Value, true
	if len(text) >= minEncoded && !strings.ContainsAny(text, " :.-") {
		decoded, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), ""))
		if err == nil && utf8.Valid(decoded) && !slices.Contains(decoded, 0) {
			text, plain = string(decoded), false
		}
	}
	start := strings.TrimSpace(text)
	if plain && !strings.Contains(text, "\n") && !strings.HasPrefix(start, "{") && !strings.HasPrefix(start, "[") {
		return nil
	}
	if w.unpacked += len(text); w.unpacked > maxUnpacked || w.depth >= maxNesting {
		return nil
	}
	roots, err := document.Read(strings.NewReader(text))
	if err != nil || !slices.ContainsFunc(roots, func(r *yaml.Node) bool { return r.Kind != yaml.ScalarNode }) {
		if !plain { // words in it
			return []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line}}
		}
		return nil
	}
	seen := map[*yaml.Node]bool{}
	for _, root := range roots {
		moveLines(root, n, plain, seen)
	}
	return roots
}

// moveLines gives the nodes of a document in a text the lines of the file.
func moveLines(n, text *yaml.Node, plain bool, seen map[*yaml.Node]bool) {
	if seen[n] {
		return
	}
	seen[n] = true
	if plain {
		n.Line = lineOfText(text, n.Line-1)
	} else {
		n.Line = text.Line
	}
	for _, child := range n.Content {
		moveLines(child, text, plain, seen)
	}
}

// lineOfText returns the line of a file for a line of a text in it, which counts from 0. The text of a block begins in
// the line after its indicator.
func lineOfText(n *yaml.Node, line int) int {
	if n.Style&yaml.LiteralStyle != 0 {
		return n.Line + 1 + line
	}
	return n.Line
}

// dropUsed removes names that are also used, and repeated ones of an object.
func (w *walker) dropUsed() {
	type place struct {
		ref    pinset.Reference
		object string
	}
	used, seen := map[pinset.Reference]bool{}, map[place]bool{}
	for _, use := range w.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil {
			used[ref] = true
		}
	}
	w.Possible = slices.DeleteFunc(w.Possible, func(p Possible) bool {
		at := place{p.Reference, p.Object}
		drop := used[p.Reference] || seen[at]
		seen[at] = true
		return drop
	})
}

// DescribePossible lists the names in a table, after their number.
func DescribePossible(all []Possible) string {
	names := map[pinset.Reference]bool{}
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, p := range all {
		names[p.Reference] = true
		fmt.Fprintf(w, "\n  %s\t%s\t%s", p.Object, p.Path, p.Reference)
	}
	w.Flush()
	count := "1 image"
	if len(names) != 1 {
		count = fmt.Sprintf("%d images", len(names))
	}
	return count + ":" + table.String()
}
