package source

import (
	"context"
	"errors"
	"fmt"

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
	// Tmp is the folder where compressed archives are unpacked; "" for the system's.
	Tmp string

	// field is the path of the source in the appliance file, for messages.
	field string
}

// Read reads the sources of an appliance. The caller closes the content, unless there is an error.
func Read(ctx context.Context, entries []Entry, o Options) (m Content, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	for i, e := range entries {
		o.field = fmt.Sprintf("spec.sources[%d]", i)
		more, err := e.read(ctx, o)
		m.add(more)
		if err != nil {
			return m, err
		}
	}
	sets, warnings, err := ReadSets(m.setPaths)
	if err != nil {
		return m, err
	}
	m.Sets, m.Warnings = sets, append(m.Warnings, warnings...)
	if len(m.Unknown) > 0 && m.empty() {
		return m, fmt.Errorf("%w; left out: %s; add images that nodes pull with --image",
			ErrNoImages, DescribeUnknown(m.Unknown))
	}
	return m, nil
}
