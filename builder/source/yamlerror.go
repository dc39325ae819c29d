package source

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	yamlLine    = regexp.MustCompile(`(?s)^(?:yaml: )?line (\d+): (.*)$`)
	yamlField   = regexp.MustCompile(`(?s)^(field (.*) not found) in type .*$`)
	yamlType    = regexp.MustCompile("(?s)^cannot unmarshal (!!\\w+)(?: `(.*)`)? into (.*)$")
	yamlDefined = regexp.MustCompile(`(?s)^mapping key "(.*)" already defined`)
)

// YAMLProblem is an error of the YAML decoder.
type YAMLProblem struct {
	// Line is 0 if it is unknown.
	Line int
	// Text has YAML's terms instead of Go types.
	Text string
	// Subject is how the key or the value begins that the error is about; "" if the decoder does not say it.
	Subject string
}

// YAMLProblems returns the errors that the YAML decoder found.
func YAMLProblems(err error) (all []YAMLProblem) {
	if errors.Is(err, io.EOF) {
		return []YAMLProblem{{Text: "it is empty"}}
	}
	var list *yaml.TypeError
	if !errors.As(err, &list) {
		list = &yaml.TypeError{Errors: []string{err.Error()}}
	}
	for _, text := range list.Errors {
		var p YAMLProblem
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			p.Line, _ = strconv.Atoi(m[1]) // they are digits
			text = m[2]
		}
		p.Text = strings.TrimPrefix(text, "yaml: ")
		if m := yamlField.FindStringSubmatch(text); m != nil {
			p.Text, p.Subject = m[1], m[2]
		} else if m := yamlType.FindStringSubmatch(text); m != nil {
			p.Text = fmt.Sprintf("got %s, want %s", yamlKind(m[1]), goKind(m[3]))
			p.Subject = strings.TrimSuffix(m[2], "...")
		} else if m := yamlDefined.FindStringSubmatch(text); m != nil {
			p.Subject = m[1]
		}
		all = append(all, p)
	}
	return all
}

// YAMLError puts the file before each line number of a YAML error.
func YAMLError(path string, err error) error {
	var errs []error
	for _, p := range YAMLProblems(err) {
		where := path
		if p.Line > 0 {
			where = fmt.Sprintf("%s:%d", path, p.Line)
		}
		errs = append(errs, fmt.Errorf("%s: %s", where, p.Text))
	}
	return errors.Join(errs...)
}

func yamlKind(tag string) string {
	kinds := map[string]string{
		"!!seq": "a list", "!!map": "a mapping", "!!str": "a text", "!!int": "a number", "!!bool": "true or false",
		"!!null": "nothing",
	}
	return cmp.Or(kinds[tag], "something else")
}

func goKind(name string) string {
	switch {
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "int"):
		return "a number"
	case name == "bool":
		return "true or false"
	case name == "string" || name == "pinset.Platform":
		return "a text"
	}
	return "a mapping"
}
