package source

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/runtime/fleet"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Wanted are files and folders of reports of nodes, with the images that pods wanted there and the node did not have.
type Wanted []string

func (l *Wanted) add(path string) { *l = append(*l, path) }

// UnmarshalYAML decodes a plain list, so that messages name no Go type.
func (l *Wanted) UnmarshalYAML(decode func(any) error) error { return decode((*[]string)(l)) }

// Validate implements Source.
func (l *Wanted) Validate() error { return nil }

// PathFields implements Source.
func (l *Wanted) PathFields() []*string { return pointers(*l) }

// Read implements Source. Of several reports of a node, the newest counts.
func (l *Wanted) Read(context.Context, Options) (m Content, err error) {
	objects, broken, err := fleet.Read(*l, nil)
	if err != nil {
		return m, err
	}
	for _, file := range slices.Sorted(maps.Keys(broken)) { // it may name the image that matters
		return m, fmt.Errorf("%s: %w", file, broken[file])
	}
	if len(objects) == 0 {
		return m, fmt.Errorf("%s: %w", strings.Join(*l, ", "), fleet.ErrNoNodes)
	}
	names, warnings, err := wantedNames(fleet.Newest(objects, time.Now()))
	m.Warnings = warnings
	m.addNames(names)
	return m, err
}

// wantedNames are the images that nodes want, each once, and lines that say which are taken: others have named them.
func wantedNames(nodes map[string]fleet.Object) (names []Named, warnings []string, err error) {
	wantedBy := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(nodes)) {
		if nodes[node].Status == nil {
			continue
		}
		for _, img := range nodes[node].Status.Wanted {
			wantedBy[img.Name] = append(wantedBy[img.Name], node)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wantedBy)) {
		by := strings.Join(wantedBy[name], ", ")
		ref, err := pinset.ParseReference(name)
		if err != nil {
			return nil, nil, fmt.Errorf("report of %s: %w", by, err)
		}
		names = append(names, Named{Reference: ref, Origin: "report of " + by})
		warnings = append(warnings, fmt.Sprintf("%s is taken since it was wanted on %s", name, by))
	}
	if len(names) == 0 {
		warnings = append(warnings, fmt.Sprintf("no image is wanted on the %d nodes of the reports", len(nodes)))
	}
	return names, warnings, nil
}
