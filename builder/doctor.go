package builder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Finding is what Examine has found of one thing that a build needs.
type Finding struct {
	// Thing is what was looked at, such as "registry quay.io".
	Thing string
	// Says is what was found.
	Says string
	// Err is why a build would fail; nil if it would not.
	Err error
	// Warning is whether it may be otherwise than intended.
	Warning bool
}

// maxClock is how far the clock may be from that of a registry: a token may be valid for a minute only.
const maxClock = time.Minute

// errClock says that the clock is wrong. A build may succeed with it.
var errClock = fault.New(fault.Registry, "this machine's clock differs from that of the registry",
	"set the clock: certificates and tokens are valid for a time")

// Examine looks at all that a build needs before it reads the first layer, and goes on after what fails. It writes
// nothing but the folder of the cache, out of which it removes parts of blobs if space is short, as a build does.
func Examine(ctx context.Context, o Options) []Finding {
	ignored, err := o.validate()
	if err != nil {
		return []Finding{{Thing: "appliance", Err: err}}
	}
	program, programSays, err := openProgram(o)
	if program != nil {
		programSays = append(programSays, program.Name())
		defer program.Close()
	}
	packs, cacheSays, cacheErr := o.Cache.open()
	cacheSays = append(cacheSays, cmp.Or(o.Cache.Dir, "none"))
	all := []Finding{
		{Thing: "pinbox-node for " + string(o.Appliance.Spec.Platform), Says: strings.Join(programSays, "; "), Err: err},
		{Thing: "cache", Says: strings.Join(cacheSays, "; "), Err: cacheErr},
	}

	p := &plan{spec: o.Appliance.Spec}
	defer p.Close()
	err = p.readInputs(ctx, o, program, "")
	all = append(all, Finding{Thing: "inputs", Says: "they can be read", Err: err})
	if err != nil {
		return all
	}
	resolveErr := p.resolve(ctx, o)
	all = append(all, p.examineRegistries(ctx)...)
	all = append(all, Finding{
		Thing: "images", Says: fmt.Sprintf("all %d are there", len(p.images)+len(p.artifacts)), Err: resolveErr,
	})
	if resolveErr == nil {
		d, err := diskOf(filepath.Dir(filepath.Clean(o.Out)))
		err = errors.Join(err, checkSpace(o, p.images, p.artifacts, program, packs))
		all = append(all, Finding{Thing: "space", Says: bytesize.Format(d.free) + " are free, which is enough", Err: err})
	}
	for _, warning := range slices.Concat(ignored, p.warnings) {
		all = append(all, Finding{Thing: "build", Says: warning, Warning: true})
	}
	return all
}

// examineRegistries asks each registry for the first image that the inputs name there, so that one that fails hides no
// other. What local files have is not asked for.
func (p *plan) examineRegistries(ctx context.Context) (all []Finding) {
	images := map[string][]pinset.Reference{}
	add := func(ref pinset.Reference) {
		host, _, _ := strings.Cut(ref.Repository, "/")
		images[host] = append(images[host], ref)
	}
	for _, n := range p.material.Named {
		for _, name := range n.Names {
			add(name.Reference)
		}
	}
	for _, img := range pinset.Union(p.material.Sets...) {
		if !p.client.IsLocal(img) {
			add(pinset.Reference{Repository: img.Repository, Digest: img.Digest})
		}
	}
	for _, r := range p.material.Releases {
		if ref, err := pinset.ParseReference(r.Image); err == nil && r.Images == nil {
			add(ref)
		}
	}
	for _, host := range slices.Sorted(maps.Keys(images)) {
		first := images[host][0]
		resolved, err := p.client.ResolveReferences(ctx, []pinset.Reference{first}, nil)
		if err == nil && first.Digest != "" {
			_, err = p.client.Resolve(ctx, resolved, nil)
		}
		says := fmt.Sprintf("answers; images: %d, %s", len(images[host]), p.client.Credentials(first.Repository))
		all = append(all, Finding{Thing: "registry " + host, Says: says, Err: err})
		if by := clockOf(ctx, http.DefaultTransport, host); by.Abs() > maxClock {
			all = append(all, Finding{
				Thing: "clock", Err: fmt.Errorf("%w: by %v from %s", errClock, by.Round(time.Second), host),
			})
		}
	}
	return all
}

// clockOf returns by how much the clock of a registry is ahead; 0 if it does not say so by HTTPS.
func clockOf(ctx context.Context, transport http.RoundTripper, host string) time.Duration {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, "https://"+host+"/v2/", nil)
	if err != nil {
		return 0
	}
	resp, err := transport.RoundTrip(req) // it follows no redirect, and sends no credentials
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	there, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return 0
	}
	return time.Until(there)
}
