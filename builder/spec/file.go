package spec

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/storage/document"
	"github.com/pinbox/pinbox/storage/input"
)

// File is an appliance file, with the places of its fields.
type File struct {
	Path      string
	Appliance Appliance

	lines []string
	root  *yaml.Node // without what is wrong; nil if the file is empty
	wrong Problems   // what cannot be decoded
	// taken are the nodes in place of wrong values, and their keys.
	taken map[*yaml.Node]bool
	// meant are words that values were probably meant to be; "" for none.
	meant map[*yaml.Node]string
}

// Open reads an appliance file, whose keys and values may be wrong: Problems has them. Relative paths are joined with
// the file's folder.
func Open(path string) (*File, error) {
	content, err := input.Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, content)
}

// Parse reads the content of an appliance file, as Open does.
func Parse(path string, content []byte) (*File, error) {
	f := &File{Path: path, lines: strings.Split(strings.ReplaceAll(string(content), "\r\n", "\n"), "\n")}
	f.taken, f.meant = map[*yaml.Node]bool{}, map[*yaml.Node]string{}
	f.Appliance.Digest = digest.FromBytes(content)
	dec := yaml.NewDecoder(bytes.NewReader(content))
	var doc yaml.Node
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAppliance, f.undecodable(err))
	}
	root := doc.Content[0]
	_, kind := child(root, "kind")
	if flag := source.FlagFor(document.Text(kind)); flag != "" {
		return nil, fmt.Errorf("%w: %s is of kind %s; give it with %s", ErrAppliance, path, kind.Value, flag)
	}
	if !(checker{f, map[visit]bool{}}).value(root, reflect.TypeOf(f.Appliance)) {
		return nil, fmt.Errorf("%w: %w", ErrAppliance, f.wrong)
	}
	f.root = root
	if err := root.Decode(&f.Appliance); err != nil {
		f.wrong = append(f.wrong, f.undecodable(err)...)
	}
	var next yaml.Node
	if err := dec.Decode(&next); !errors.Is(err, io.EOF) {
		f.wrong = append(f.wrong, f.problem(f.onLine(next.Line), errors.New("more than one document")))
	}
	f.Appliance.resolvePaths(filepath.Dir(path))
	return f, nil
}

// Problem is an error, and its place in an appliance file.
type Problem struct {
	File string `json:"file"`
	// Line and Column count from 1. Both are 0 if the error has no place in the file.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Message string `json:"message"`

	text string // the line
	err  error
}

// maxText is the longest line, in bytes, that an error shows: JSON may be all on one.
const maxText = 200

// Error has the file, the line and the column, and below the message the line with a caret.
func (p Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	shown := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if len(p.text) > maxText {
		return shown
	}
	var caret strings.Builder
	for i, r := range []rune(p.text) {
		if i == p.Column-1 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		caret.WriteRune(r)
	}
	return fmt.Sprintf("%s\n    %s\n    %s^", shown, p.text, caret.String())
}

// Unwrap returns the error without its place.
func (p Problem) Unwrap() error { return p.err }

// Problems are errors in an appliance file.
type Problems []Problem

func (p Problems) Error() string {
	var texts []string
	for _, problem := range p {
		texts = append(texts, problem.Error())
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the errors.
func (p Problems) Unwrap() (errs []error) {
	for _, problem := range p {
		errs = append(errs, problem)
	}
	return errs
}

// Problems returns what is wrong in the file, and the errors that an error joins, in the order of their places. The
// place of an error is that of the field that it is about, with a method Field or at the beginning of its text, or of
// the value that its text quotes or names as a file. What is about a value that cannot be decoded is left out.
func (f *File) Problems(err error) Problems {
	all := append(slices.Clone(f.wrong), f.problems(err, "")...)
	slices.SortStableFunc(all, func(a, b Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return all
}

func (f *File) problems(err error, field string) (all Problems) {
	if err == nil {
		return nil
	}
	if named, ok := err.(interface{ Field() string }); ok { //nolint:errorlint // likewise
		field = named.Field()
		err = errors.Unwrap(err)
	}
	if list, ok := err.(interface{ Unwrap() []error }); ok && isJoin(err, list.Unwrap()) { //nolint:errorlint // likewise
		for _, err := range list.Unwrap() {
			all = append(all, f.problems(err, field)...)
		}
		return all
	}
	at := f.place(err.Error(), field)
	if f.taken[at] {
		return nil
	}
	p := f.problem(at, err)
	if meant := f.meant[at]; meant != "" {
		p.Message += "; did you mean " + meant + "?"
	}
	return Problems{p}
}

// isJoin tells what errors.Join made from what fmt.Errorf did, which has a text of its own.
func isJoin(err error, parts []error) bool {
	var texts []string
	for _, part := range parts {
		texts = append(texts, part.Error())
	}
	return err.Error() == strings.Join(texts, "\n")
}

// problem puts an error at the place of a node; nil is none.
func (f *File) problem(n *yaml.Node, err error) Problem {
	p := Problem{File: f.Path, Message: err.Error(), err: err}
	if n != nil && n.Line > 0 && n.Line <= len(f.lines) {
		p.Line, p.Column, p.text = n.Line, max(n.Column, 1), f.lines[n.Line-1]
	}
	return p
}

var (
	fieldInText = regexp.MustCompile(`^(?:apiVersion|kind|metadata|spec)\b(?:\.[A-Za-z]+|\[\d+\])*`)
	fieldStep   = regexp.MustCompile(`[A-Za-z]+|\[\d+\]`)
)

// place finds the node that a text is about; nil if there is none.
func (f *File) place(text, field string) *yaml.Node {
	if f.root == nil {
		return nil
	}
	named := fieldInText.FindString(text)
	field = cmp.Or(named, field)
	steps := fieldStep.FindAllString(field, -1)
	if rest := strings.TrimLeft(strings.TrimPrefix(text, field), ": "); field != "" { // it may begin with a field below
		steps = append(steps, fieldStep.FindString(rest))
	}
	at, below := f.root, f.root
	for _, step := range steps {
		key, value := child(below, step)
		if value == nil {
			break
		}
		if at, below = key, value; value.Kind == yaml.ScalarNode {
			at = value
		}
	}
	if value := f.named(below, text, named == ""); value != nil {
		return value
	}
	if field == "" {
		return nil
	}
	return at
}

// child returns the node of a key or of an [index], and its value.
func child(n *yaml.Node, step string) (at, value *yaml.Node) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if index, ok := strings.CutPrefix(step, "["); ok {
		i, _ := strconv.Atoi(strings.TrimSuffix(index, "]")) // they are digits
		if n.Kind != yaml.SequenceNode || i >= len(n.Content) {
			return nil, nil
		}
		return n.Content[i], n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == step {
			return n.Content[i], n.Content[i+1]
		}
	}
	return nil, nil
}

// named returns the value below a node that a text names first, in quotes or as a file: the longest of those.
func (f *File) named(n *yaml.Node, text string, files bool) (found *yaml.Node) {
	first := len(text)
	for _, value := range values(n) {
		if value.Value == "" {
			continue
		}
		at := strings.Index(text, strconv.Quote(value.Value))
		if i := indexFile(text, f.resolve(value.Value)); files && i >= 0 && (at < 0 || i < at) {
			at = i
		}
		if at >= 0 && (at < first || at == first && found != nil && len(value.Value) > len(found.Value)) {
			found, first = value, at
		}
	}
	return found
}

// indexFile returns the index of a path in a text where it is no part of a longer name; -1 if there is none.
func indexFile(text, path string) int {
	for at := 0; ; {
		i := strings.Index(text[at:], path)
		if i < 0 {
			return -1
		}
		at += i
		after := text[at+len(path):]
		if !endsInPath(text[:at]) && (after == "" || strings.ContainsAny(after[:1], " :,;/\n")) {
			return at
		}
		at += len(path)
	}
}

func endsInPath(text string) bool {
	return text != "" && !strings.ContainsAny(text[len(text)-1:], " :,;\n\"")
}

// values returns the scalars below a node that are no keys. An alias has none: its anchor is elsewhere in the file.
func values(n *yaml.Node) (all []*yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		return []*yaml.Node{n}
	}
	for i, child := range n.Content {
		if n.Kind != yaml.MappingNode || i%2 == 1 {
			all = append(all, values(child)...)
		}
	}
	return all
}

// resolve joins a relative path with the folder of the file.
func (f *File) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(filepath.Dir(f.Path), path)
}

// undecodable returns the errors of the YAML decoder.
func (f *File) undecodable(err error) (all Problems) {
	for _, p := range source.YAMLProblems(err) {
		all = append(all, f.problem(f.onLine(p.Line), errors.New(p.Text)))
	}
	return all
}

// onLine returns a node at the first text of a line; nil without a line.
func (f *File) onLine(line int) *yaml.Node {
	if line < 1 || line > len(f.lines) {
		return nil
	}
	text := f.lines[line-1]
	return &yaml.Node{Line: line, Column: len(text) - len(strings.TrimLeft(text, " -")) + 1}
}
