package source

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	neturl "net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode"
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
	// Refused is true if the source refuses the name, unless another source has it.
	Refused bool
	// From is where the object is in a cluster; zero if it is of no cluster.
	From Live
}

// Unread is a text that may name images and is not read: one that stands too deep in others, or an archive.
type Unread struct {
	At Field
	// Object and Path are as in Possible. Why says why it is not read.
	Object, Path, Why string
}

// String says what is not read.
func (u Unread) String() string {
	return fmt.Sprintf("%s in %s is not read: %s", u.Path, u.Object, u.Why)
}

// place is an image in an object.
type place struct {
	ref    pinset.Reference
	object string
}

const (
	// maxNesting is how deep texts may stand in texts.
	maxNesting = 6
	// maxUnpacked limits the texts in the texts of a file, in bytes: each level of nesting may decode all of it again.
	maxUnpacked = 4 * document.MaxBytes
	// maxInTexts limits the nodes of these texts, since the aliases of each may add to them.
	maxInTexts = 1 << 24
	// maxSteps and maxStep limit the path in a message: its last keys, and the characters of a key.
	maxSteps, maxStep = 24, 80
	// minEncoded is the shortest text that is tried as base64.
	minEncoded = 40
)

// text looks for names in a value: it may be a name, contain some, or be YAML, JSON or base64 of these.
func (w *walker) text(n *yaml.Node, key string, in object) {
	if in.none || w.taken[n] || key == "kubectl.kubernetes.io/last-applied-configuration" {
		return
	}
	if roots := w.nested(n, in); len(roots) > 0 {
		below := in
		below.nested, below.fields = true, podFields()
		w.depth++
		for _, root := range roots {
			w.walk(root, key, below)
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
			w.Uses = append(w.Uses, Use{Image: Field{m.ref.String(), w.file, line}, From: in.from})
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
	above := sharedBy(n, in.shared) // with the mapping's own global
	above.version = in.shared.version
	name, used := joinParts(n, imageKey(key), above, w.taken)
	w.joined(name, used, in)
	imageNode, image := part(n, nameParts.image, w.taken)
	if image != "" && !strings.ContainsAny(image, "/:@") && runs(n) && !in.nested { // busybox
		w.joined(image, []*yaml.Node{imageNode}, in)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if !w.taken[value] {
			name, used := joinBeside(n, key, value)
			w.joined(name, used, in)
		}
		// Each such version is an image: defaultImageVersion, defaultGpuImageVersion.
		if tag := document.Text(value); tag != "" && image != "" && !named(image) && strings.HasSuffix(key, "ImageVersion") {
			w.joined(image+":"+tag, []*yaml.Node{imageNode, value}, in)
		}
	}
}

// runs reports whether a mapping is a container, which may stand in any list or patch.
func runs(n *yaml.Node) bool {
	for _, key := range []string{"command", "args", "volumeMounts"} {
		if list := document.Field(n, key); list != nil && list.Kind == yaml.SequenceNode && len(list.Content) > 0 {
			return spelled(n, "repository") == nil && spelled(n, "registry") == nil
		}
	}
	return false
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

// possible adds a name, once for an object.
func (w *walker) possible(at Field, ref pinset.Reference, in object) {
	here := place{ref, in.name}
	if w.listed[here] {
		return
	}
	w.listed[here] = true
	w.Possible = append(w.Possible, Possible{
		Image: at, Reference: ref, Object: printable(in.name), Path: joinPath(w.path[in.root:]),
		From: in.from,
	})
}

// joinPath joins a path for a message: the keys are those of a file of others.
func joinPath(path []string) string {
	var text strings.Builder
	if len(path) > maxSteps {
		path = path[len(path)-maxSteps:]
		text.WriteString("…")
	}
	for i, step := range path {
		if i > 0 && !strings.HasPrefix(step, "[") {
			text.WriteString(".")
		}
		text.WriteString(printable(step))
	}
	return text.String()
}

// printable shortens a text of a file, and replaces what would break a line of a table.
func printable(text string) string {
	if len(text) > maxStep {
		text = strings.ToValidUTF8(text[:maxStep], "") + "…"
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// tooLarge ends the reading of a file whose texts in texts exceed a limit.
func (w *walker) tooLarge(n *yaml.Node) {
	w.err = fmt.Errorf("%s:%d: %w: %w: with the YAML, JSON and base64 in its texts", w.file, n.Line, ErrManifest,
		document.ErrTooLarge)
}

// decode returns what a text has in base64, or in a data URL of Ignition, also with gzip, as releases of Helm have;
// nothing if it has neither.
func decode(text string) (content []byte) {
	var err error
	if url, ok := strings.CutPrefix(text, "data:"); ok {
		kind, data, _ := strings.Cut(url, ",")
		if text, err = neturl.PathUnescape(data); err != nil {
			return nil
		}
		if !strings.HasSuffix(kind, ";base64") {
			return []byte(text)
		}
	} else if len(text) < minEncoded || strings.ContainsAny(text, " :.-") {
		return nil
	}
	if content, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
		return nil
	}
	r, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return content
	}
	unpacked, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return content
	}
	return unpacked
}

// nested returns the documents in a text, which is YAML, JSON, or an encoding of these, if they have keys or lists.
// Their nodes have the lines of the file.
func (w *walker) nested(n *yaml.Node, in object) []*yaml.Node {
	text, plain := n.Value, true
	decoded := decode(text)
	w.unpacked += len(decoded) // also what is no text
	if len(decoded) > 0 && utf8.Valid(decoded) && !slices.Contains(decoded, 0) {
		text, plain = string(decoded), false
	}
	start := strings.TrimSpace(text)
	likely := !plain || strings.Contains(text, "\n") || strings.HasPrefix(start, "{") || strings.HasPrefix(start, "[")
	if plain && likely {
		w.unpacked += len(text)
	}
	if w.unpacked > maxUnpacked {
		w.tooLarge(n)
		return nil
	}
	if len(decoded) > tarMagic+5 && string(decoded[tarMagic:tarMagic+5]) == "ustar" { // chartContent of a HelmChart
		w.leave(n, in, "it is an archive; if it is a chart, render it and name the result, too")
	}
	if !likely {
		return nil
	}
	roots, err := document.Read(strings.NewReader(text))
	if err != nil || !slices.ContainsFunc(roots, func(r *yaml.Node) bool { return r.Kind != yaml.ScalarNode }) {
		if plain {
			return nil
		}
		roots = []*yaml.Node{{Kind: yaml.ScalarNode, Tag: "!!str", Value: text, Line: n.Line}} // words in it
	}
	if w.depth >= maxNesting {
		w.leave(n, in, fmt.Sprintf("it stands in %d texts, one in the other", maxNesting))
		return nil
	}
	seen := map[*yaml.Node]bool{}
	for _, root := range roots {
		moveLines(root, n, plain, seen)
	}
	return roots
}

// tarMagic is where the header of a tar archive says "ustar": POSIX.1-1988.
const tarMagic = 257

// leave notes a text that is not read.
func (w *walker) leave(n *yaml.Node, in object, why string) {
	w.Unread = append(w.Unread, Unread{
		At: Field{"", w.file, n.Line}, Object: printable(in.name), Path: joinPath(w.path[in.root:]), Why: why,
	})
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

// dropUsed removes names that are also used.
func (w *walker) dropUsed() {
	used := map[pinset.Reference]bool{}
	for _, use := range w.Uses {
		if ref, _, err := pinset.Expand(use.Image.Text); err == nil {
			used[ref] = true
		}
	}
	w.Possible = slices.DeleteFunc(w.Possible, func(p Possible) bool { return used[p.Reference] })
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
