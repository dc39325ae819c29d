package source

import (
	"context"
	"errors"
	"fmt"
)

// Images are names, with a digest or a tag. Short ones are completed.
type Images []string

func (l *Images) add(name string) { *l = append(*l, name) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *Images) UnmarshalYAML(decode func(any) error) error { return decode((*[]string)(l)) }

// Validate implements Source. Read checks the names, all at once.
func (l *Images) Validate() error { return nil }

// PathFields implements Source.
func (l *Images) PathFields() []*string { return nil }

// Read implements Source.
func (l *Images) Read(_ context.Context, o Options) (m Content, err error) {
	var names []Named
	var errs []error
	for i, text := range *l {
		name, err := o.complete(text, fmt.Sprintf("%s.images[%d]", o.field, i))
		names, errs = append(names, name), append(errs, err)
	}
	m.addNames(names)
	return m, errors.Join(errs...)
}
