package main

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pinbox/pinbox/builder/source"
)

// sourceFlags are the values of the flags for inputs, by the names of the flags.
type sourceFlags map[string]*sourceValue

// sourceValue is the value of a flag for inputs. It implements pflag.Value.
type sourceValue struct {
	flag source.Flag
	all  []string
}

func (v *sourceValue) Set(text string) error {
	switch {
	case !v.flag.SingleValue:
		v.all = append(v.all, text)
	case text == "":
		v.all = nil
	default:
		v.all = []string{text}
	}
	return nil
}

func (v *sourceValue) String() string { return strings.Join(v.all, ", ") }

// Type is the placeholder of the value in the help.
func (v *sourceValue) Type() string { return v.flag.Value }

// add makes the flags from the table of sources.
func (f *sourceFlags) add(flags *pflag.FlagSet) {
	*f = sourceFlags{}
	for _, kind := range source.Kinds() {
		for _, flag := range kind.Flags {
			usage := cmp.Or(flag.Doc, kind.Doc)
			if !flag.SingleValue {
				usage += "; may be repeated"
			}
			value := &sourceValue{flag: flag}
			(*f)[flag.Name] = value
			flags.Var(value, flag.Name, usage)
		}
	}
}

// given returns the values of the flags, for the provenance statement: of a path only the last element.
func (f sourceFlags) given() map[string][]string {
	given := map[string][]string{}
	for name, value := range f {
		for _, v := range value.all {
			if value.flag.Value != "NAME" {
				path, image, named := strings.Cut(v, "=")
				if v = filepath.Base(path); named {
					v += "=" + image
				}
			}
			given[name] = append(given[name], v)
		}
	}
	return given
}

// entries returns the inputs that the flags name.
func (f sourceFlags) entries() []source.Entry {
	values := map[string][]string{}
	for name, value := range f {
		values[name] = value.all
	}
	return source.FromFlags(values)
}
