package builder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/sites"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// SiteDelta is a delta that was built for sites.
type SiteDelta struct {
	Result
	// Sites that it serves, by their names.
	Sites []string `json:"sites"`
}

// SitesResult says which deltas were built, and what is with each site.
type SitesResult struct {
	// ReleaseID is the release that sites have with their delta.
	pinset.ReleaseID
	// Out is the folder with the folders of the deltas; "" if there are none.
	Out    string      `json:"out,omitempty"`
	Deltas []SiteDelta `json:"deltas"`
	// Done are sites that have the release, and Unserved those that no delta serves.
	Done     []string         `json:"done"`
	Unserved []sites.Unserved `json:"unserved"`
	Warnings []string         `json:"warnings,omitempty"`
	// Seconds is the duration of the build.
	Seconds float64 `json:"seconds"`
}

// ErrThinSites says that a thin delta was asked for of sites whose stores are not here.
var ErrThinSites = fault.New(fault.Usage, "a thin delta needs the contents of layers, which reports do not have",
	"leave out --thin, or name a base of each site with --from")

// DeltasFor makes the folder of the fewest deltas that serve all sites, at most max if that is not 0: see [sites.New].
// Tags are resolved once. The folder appears complete, or not at all; if there is nothing to make, not at all. A site
// that no delta serves is no error.
func DeltasFor(ctx context.Context, o Options, all []sites.Site, max int) (r SitesResult, err error) {
	started := time.Now()
	if o.Thin {
		return r, ErrThinSites
	}
	stage, err := artifact.OpenStage(o.Out)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, stage.Discard()) }()
	o.Bases = []base.Base{}
	lock, warnings, err := Plan(ctx, o)
	if err != nil {
		return r, err
	}
	o.Lock = lock
	plan := sites.New(lock, all, max)
	r = SitesResult{
		ReleaseID: lock.ReleaseID, Deltas: []SiteDelta{}, Done: append([]string{}, plan.Done...),
		Unserved: append([]sites.Unserved{}, plan.Unserved...), Warnings: append(warnings, sites.Lacking(lock, all)...),
	}
	out := filepath.Clean(o.Out)
	for i, d := range plan.Deltas {
		name := fmt.Sprintf("delta-%d", i+1)
		o.Out = stage.Path(name)
		o.Bases = d.Bases
		made, err := Delta(ctx, o)
		if err == nil {
			err = checkSites(d, made)
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", name, err)
		}
		r.addDelta(d, made, filepath.Join(out, name))
	}
	if len(r.Deltas) > 0 {
		r.Out, err = out, stage.Publish()
	}
	r.Seconds = time.Since(started).Seconds()
	return r, err
}

// checkSites reads a delta that was made, and checks that its sites have what it needs.
func checkSites(d sites.Delta, made Result) error {
	f, err := os.Open(filepath.Join(made.Out, layout.DeltaFile))
	if err != nil {
		return err
	}
	defer f.Close()
	delta, err := pinset.DecodeDelta(f)
	if err != nil {
		return err
	}
	return d.Check(delta)
}

// addDelta adds a delta that will be in a folder. Its warnings are those of all.
func (r *SitesResult) addDelta(d sites.Delta, made Result, out string) {
	for _, w := range made.Warnings {
		if !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	made.Out, made.Warnings = out, nil
	s := SiteDelta{Result: made}
	for _, site := range d.Sites {
		s.Sites = append(s.Sites, site.Name)
	}
	r.Deltas = append(r.Deltas, s)
}

// Served is the number of sites that have a delta.
func (r SitesResult) Served() (n int) {
	for _, d := range r.Deltas {
		n += len(d.Sites)
	}
	return n
}

// Count is the number of all sites.
func (r SitesResult) Count() int { return r.Served() + len(r.Done) + len(r.Unserved) }
