package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"github.com/pinbox/pinbox/storage/document"
)

// text returns a node as text, each scalar with its line.
func text(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return fmt.Sprintf("%s:%d", n.Value, n.Line)
	}
	var parts []string
	for _, child := range n.Content {
		parts = append(parts, text(child))
	}
	if n.Kind == yaml.MappingNode {
		return "{" + strings.Join(parts, " ") + "}"
	}
	return "[" + strings.Join(parts, " ") + "]"
}

func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		stream string
		want   []string
	}{
		"YAML documents": {"a: 1\n---\n# nothing\n---\n- b\n---\n", []string{"{a:1 1:1}", "[b:5]"}},
		"empty":          {"", nil},
		"comments":       {"# a\n", nil},
		"one JSON value": {"\ufeff{\"a\":\n1}\n", []string{"{a:1 1:2}"}},
		"braces of YAML": {"{a: b}\n---\n{c: d}\n", []string{"{a:1 b:1}", "{c:3 d:3}"}},
		"JSON documents": {"{\"a\": 1}\n---\n{\"b\": 2}\n", []string{"{a:1 1:1}", "{b:3 2:3}"}},
		"JSON values": {
			"\n{\n  \"a\": 1\n}\n{\"b\":\n2}{\"c\": [3]}\n\n", []string{"{a:3 1:3}", "{b:5 2:6}", "{c:6 [3:6]}"},
		},
		"JSON values and more": {"{\"a\":1} {\"b\":2} null \"c\"", []string{"{a:1 1:1}", "{b:1 2:1}", "c:1"}},
		"a list of JSON":       {"[{\"a\": \"\",\n\"b\": []}, null]", []string{"[{a:1 :1 b:2 []} null:2]"}},
		"scalars of JSON": {
			"{\"a\": [true, null, 1e3, -0.10, \"1\"]}", []string{"{a:1 [true:1 null:1 1e3:1 -0.10:1 1:1]}"},
		},
		"aliases": {"a: &a\n- &b x\n- *b\nc: *a\n*b : *b\n", []string{"{a:1 [x:2 x:3] c:4 [x:2 x:3] x:5 x:5}"}},
		"a mapping merged": {
			"a: &a\n  x: 1\n  y: 2\nb:\n  y: 3\n  <<: *a\n", []string{"{a:1 {x:2 1:2 y:3 2:3} b:4 {y:5 3:5 x:2 1:2}}"},
		},
		"several merged": {
			"- &a {x: 1}\n- &b\n  x: 2\n  <<: {y: 3}\n- <<: [*a, *b]\n", []string{
				"[{x:1 1:1} {x:3 2:3 y:4 3:4} {x:1 1:1 y:4 3:4}]",
			},
		},
		"a key of two signs": {"{\"<<\": 1, a: <<}", []string{"{<<:1 1:1 a:1 <<:1}"}},
		"an anchor twice":    {"- &a x\n- *a\n- &a y\n- *a\n", []string{"[x:1 x:2 y:3 y:4]"}},
	} {
		t.Run(name, func(t *testing.T) {
			roots, err := document.Read(strings.NewReader(c.stream))
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, root := range roots {
				got = append(got, text(root))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// JSON that is not YAML can be read. A bug was to refuse it, for example the escape that Python's
// json.dumps writes for an emoji: "found invalid Unicode character escape code", without the line.
func TestJSONThatIsNotYAML(t *testing.T) {
	long := strings.Repeat("k", 1100) // a key of YAML has at most 1,024 characters
	for json, want := range map[string]string{
		`"\ud83d\ude00"`:          "\U0001F600",
		"\"\x7f\"":                "\x7f",
		`"a\/b\u00e9\t\ud83d"`:    "a/b\u00e9\t\ufffd",
		`"<<", "` + long + `": 1`: "<<",
	} {
		t.Run(json, func(t *testing.T) {
			const value = "{\n\"annotation\"\n: VALUE}\n"
			stream := strings.Replace(value, "VALUE", json, 1)
			for _, stream := range []string{stream, stream + stream} {
				roots, err := document.Read(strings.NewReader(stream))
				if err != nil {
					t.Fatal(err)
				}
				got := document.Field(roots[len(roots)-1], "annotation")
				if line := strings.Count(stream, "\n"); got == nil || got.Value != want || got.Line != line ||
					got.ShortTag() != "!!str" {
					t.Errorf("got %+v, want %q in line %d", got, want, line)
				}
			}
		})
	}
	roots, err := document.Read(
		strings.NewReader(`{"labels": {"a": "1", "b": "true"}, "generation": 12, "on": true, "of": null}`))
	if err != nil {
		t.Fatal(err)
	}
	type object struct {
		Labels     map[string]string
		Generation int64
		On         bool
		Of         *string
	}
	got, want := object{}, object{Labels: map[string]string{"a": "1", "b": "true"}, Generation: 12, On: true}
	if err := roots[0].Decode(&got); err != nil || !cmp.Equal(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// laughs returns a document of a few lines whose aliases expand to 10^n scalars: the attack that is
// known as billion laughs.
func laughs(n int) string {
	s := "a0: &a0 x\n"
	for i := range n {
		s += fmt.Sprintf("a%d: &a%[1]d [%s]\n", i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 10))
	}
	return s
}

func TestInvalidStreams(t *testing.T) {
	deep := "a0: &a0 x\n"
	for i := range 1000 {
		deep += fmt.Sprintf("a%d: &a%[1]d %s*a%d%s\n", i+1, strings.Repeat("[", 50), i, strings.Repeat("]", 50))
	}
	for name, c := range map[string]struct {
		stream, text string
		large        bool
	}{
		"not YAML":              {"a: [", "line 1", false},
		"a template":            {"{{- if .Values.on }}\nkind: Pod\n", "yaml: ", false},
		"an alias in itself":    {"a: 1\nb: &b\n  c: [*b]\n", "line 3: an alias refers to a node that contains it", false},
		"a merge of itself":     {"a: 1\nb: &b {<<: *b}\n", "line 2: an alias refers to a node that contains it", false},
		"aliases in each other": {"a: &a\n- &b {x: *a}\n", "an alias refers to a node that contains it", false},
		"a merge of a scalar":   {"a:\n  <<: 1\n", "line 2: << takes a mapping", false},
		"a billion laughs":      {laughs(9), "line 7: too large: with the nodes that its aliases refer to", true},
		// A bug was to apply the limit to each document.
		"documents of few laughs": {
			strings.Repeat("---\n"+laughs(4), 100), "too large: with the nodes that its aliases refer to", true,
		},
		"10^100 laughs": {laughs(100), "too large", true},
		"deep aliases":  {deep, "too large", true},
		// A bug was to ignore the second one.
		"a repeated key": {
			"a: 1\nb:\n  image: x\n  image: y\n", `line 4: key "image" is also in line 3`, false,
		},
		"a repeated list":        {"a: [x]\nb: 1\na: [y]\n", `line 3: key "a" is also in line 1`, false},
		"a repeated key of JSON": {"{\"a\": 1,\n\"a\": 2}", `line 2: key "a" is also in line 1`, false},
		"JSON and something else": {
			"{\"a\":1}\n{\"b\":2}\n{\"c\"\n", "line 2: after 2 JSON values: unexpected EOF", false,
		},
		"truncated JSON": {"{\"a\":\n[1,\n", "line 2: ", false},
		"deep JSON":      {strings.Repeat("[", 1<<20), "exceeded max depth", false},
		"too large": {
			strings.Repeat("# 16 bytes long\n", 4<<20) + "a: b\n", "too large: more than 64 MiB", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := document.Read(strings.NewReader(c.stream)); err == nil ||
				errors.Is(err, document.ErrTooLarge) != c.large || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, want an error with %q, too large: %v", err, c.text, c.large)
			}
		})
	}
	if _, err := document.Read(strings.NewReader(laughs(5))); err != nil {
		t.Errorf("100,000 laughs: got %v, want no error", err)
	}
}
