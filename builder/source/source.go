package source

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/pinset"
)

// Source is an input of an appliance: files, folders or names, of one kind.
type Source interface {
	// Validate checks the fields. The text of the error follows "spec.sources[0] ".
	Validate() error
	// PathFields points to the fields that are paths. Relative ones are resolved against the folder
	// of the appliance file.
	PathFields() []*string
	// Read reads the files that the source names, and contacts no registry. The caller closes the
	// content, after an error as well.
	Read(ctx context.Context, o Options) (Content, error)
}

// Options are what the sources of an appliance share.
type Options struct {
	// Appliance is its name. Sets without a name get theirs from it.
	Appliance string
	// Platform of the nodes.
	Platform pinset.Platform
	// DefaultRegistry completes short names in lists; "" leaves that to registries.conf(5).
	DefaultRegistry string
	// AnyArchitecture names images that are taken whatever their architecture is.
	AnyArchitecture []string
	// Tmp is the folder where compressed archives are unpacked; "" for the system's.
	Tmp string

	// field is the path of the source in the appliance file, for messages.
	field string
}

// InField says which field of the appliance file an error is about. Its text does not name the field: without such a
// file there is none.
func InField(field string, err error) error {
	if err == nil {
		return nil
	}
	return fieldError{field, err}
}

type fieldError struct {
	field string
	error
}

// Field returns the field, such as spec.sources[0].
func (e fieldError) Field() string { return e.field }

func (e fieldError) Unwrap() error { return e.error }

// Read reads the sources of an appliance, and reports all errors at once. The caller closes the content, unless there
// is an error.
func Read(ctx context.Context, entries []Entry, o Options) (m Content, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	var errs []error
	for i, e := range entries {
		if e.Source == nil { // Validate says so
			continue
		}
		o.field = fmt.Sprintf("spec.sources[%d]", i)
		more, err := e.read(ctx, o)
		m.add(more)
		errs = append(errs, InField(o.field, err))
	}
	for _, text := range o.AnyArchitecture {
		name, err := o.complete(text, "--any-architecture")
		if last := text[strings.LastIndex(text, "/")+1:]; !strings.ContainsAny(last, ":@") {
			name.Tag = "" // all of the repository
		}
		m.AnyArchitecture = append(m.AnyArchitecture, name.Reference)
		errs = append(errs, InField("spec.anyArchitecture", err))
	}
	sets, warnings, err := ReadSets(ctx, m.setPaths)
	if err := errors.Join(append(errs, err)...); err != nil {
		return m, err
	}
	m.Sets, m.Warnings = sets, append(m.Warnings, warnings...)
	if completed := describeCompleted(m.Named); completed != "" {
		m.Warnings = append(m.Warnings, completed)
	}
	if len(m.Possible) > 0 && m.empty() {
		return m, fmt.Errorf("%w: %s", ErrPossible, DescribePossible(m.Possible))
	}
	return m, nil
}
