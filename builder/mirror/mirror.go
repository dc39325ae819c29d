package mirror

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrConflict is returned for a source that one rule blocks and another does not.
var ErrConflict = fault.New(fault.Input, "one source has two policies",
	"give all its entries the same mirrorSourcePolicy (default: AllowContactingSource); the cluster also refuses a "+
		"conflict")

// PullFrom limits a mirror to references with a digest or with a tag: pull-from-mirror of
// containers-registries.conf(5).
type PullFrom string

// A mirror is used for digests or for tags.
const (
	Digest PullFrom = "digest-only"
	Tag    PullFrom = "tag-only"
)

// Rule is one entry of an object that names mirrors.
type Rule struct {
	// Source is a registry, a namespace or a repository as images name it, or all
	// hosts below a domain: *.example.com.
	Source string
	// Mirrors to try before the source, in this order.
	Mirrors  []string
	PullFrom PullFrom
	// NeverContactSource forbids to contact the source itself.
	NeverContactSource bool
	// Origin is the file and line that the rule came from.
	Origin string
}

// Registry is a source with the merged mirrors of its rules.
type Registry struct {
	Source  string
	Mirrors []Mirror
	Blocked bool
}

// Mirror is tried before the source.
type Mirror struct {
	Location string
	PullFrom PullFrom
}

// Merge merges the rules of each source as the Machine Config Operator does, independent of the
// order of files and objects: openshift's runtime-utils, pkg/registries. As there, rules that
// contradict each other are an error.
func Merge(rules []Rule) ([]Registry, error) {
	if err := checkPolicies(rules); err != nil {
		return nil, err
	}
	bySource := map[string]*Registry{}
	for _, r := range rules {
		if r.empty() {
			continue // its policy has no effect
		}
		if bySource[r.Source] == nil {
			bySource[r.Source] = &Registry{Source: r.Source, Blocked: r.NeverContactSource}
		}
	}
	var all []Registry
	for _, source := range slices.Sorted(maps.Keys(bySource)) {
		registry := bySource[source]
		for _, by := range []PullFrom{Digest, Tag} {
			for _, location := range order(source, lists(rules, source, by)) {
				registry.Mirrors = append(registry.Mirrors, Mirror{location, by})
			}
		}
		all = append(all, *registry)
	}
	return all, nil
}

// empty reports whether a rule has no mirror except the source.
func (r Rule) empty() bool {
	return !slices.ContainsFunc(r.Mirrors, func(m string) bool { return m != r.Source })
}

// checkPolicies refuses rules of one source with different policies.
func checkPolicies(rules []Rule) error {
	first := map[string]Rule{}
	for _, r := range rules {
		other, ok := first[r.Source]
		if !ok {
			first[r.Source] = r
		} else if other.NeverContactSource != r.NeverContactSource {
			return fmt.Errorf("%s: %w: mirrorSourcePolicy of %s is %s, in %s it is %s", r.Origin, ErrConflict, r.Source,
				r.policy(), other.Origin, other.policy())
		}
	}
	return nil
}

func (r Rule) policy() string {
	if r.NeverContactSource {
		return NeverContactSource
	}
	return AllowContactingSource
}

// The values of mirrorSourcePolicy.
const (
	NeverContactSource    = "NeverContactSource"
	AllowContactingSource = "AllowContactingSource"
)

func lists(rules []Rule, source string, by PullFrom) (all [][]string) {
	for _, r := range rules {
		if r.Source == source && r.PullFrom == by && !r.empty() {
			all = append(all, r.Mirrors)
		}
	}
	return all
}

// order merges lists, and keeps the order of each: a topological sort, with ties and cycles broken
// by name. The source is last, unless a list has it elsewhere.
func order(source string, lists [][]string) (sorted []string) {
	waits := map[string]map[string]bool{} // locations that must come before
	for _, list := range lists {
		if !slices.Contains(list, source) {
			list = append(slices.Clone(list), source)
		}
		for i, location := range list {
			if waits[location] == nil {
				waits[location] = map[string]bool{}
			}
			if i > 0 {
				waits[location][list[i-1]] = true
			}
		}
	}
	all := slices.Sorted(maps.Keys(waits))
	var free []string
	for _, location := range all {
		if len(waits[location]) == 0 {
			free = append(free, location)
		}
	}
	for len(sorted) < len(all) {
		if len(free) == 0 { // a cycle
			free = []string{all[slices.IndexFunc(all, func(l string) bool { return !slices.Contains(sorted, l) })]}
		}
		next := free[0]
		sorted, free = append(sorted, next), free[1:]
		for _, location := range all {
			if !waits[location][next] {
				continue
			}
			delete(waits[location], next)
			if len(waits[location]) == 0 && !slices.Contains(sorted, location) {
				free = append(free, location)
			}
		}
	}
	if n := len(sorted); n > 0 && sorted[n-1] == source {
		sorted = sorted[:n-1] // the library tries it last anyway
	}
	return sorted
}

// Render returns the drop-in for registries.conf, nil for no registries. The output is
// reproducible.
func Render(registries []Registry) []byte {
	if len(registries) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("# Written by pinbox, of objects that name mirrors: ImageDigestMirrorSet,\n" +
		"# ImageTagMirrorSet, ImageContentSourcePolicy.\n")
	for _, r := range registries {
		key := "location"
		if strings.HasPrefix(r.Source, "*.") {
			key = "prefix"
		}
		fmt.Fprintf(&b, "\n[[registry]]\n  %s = %q\n", key, r.Source)
		if r.Blocked {
			b.WriteString("  blocked = true\n")
		}
		for _, m := range r.Mirrors {
			fmt.Fprintf(&b, "  [[registry.mirror]]\n    location = %q\n    pull-from-mirror = %q\n", m.Location, m.PullFrom)
		}
	}
	return []byte(b.String())
}

// What the cluster's API accepts: config.openshift.io/v1, ImageDigestMirrors and ImageMirror.
const (
	label = `[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?`
	host  = label + `(?:\.` + label + `)*(?::[0-9]+)?`
	path  = `(?:/[a-z0-9]+(?:(?:[._]|__|-*)[a-z0-9]+)*)*`
)

var (
	location = regexp.MustCompile(`^` + host + path + `$`)
	wildcard = regexp.MustCompile(`^\*(?:\.` + label + `)+$`)
	tag      = regexp.MustCompile(`^([^@]*?)(?::[^:/@]+)?(?:@.*)?$`)
)

// CheckSource checks the form of a source.
func CheckSource(s string) error {
	if wildcard.MatchString(s) {
		return nil
	}
	if strings.Contains(s, "*") {
		return fmt.Errorf("source %q: a wildcard stands for hosts, as in *.example.com", s)
	}
	if err := CheckMirror(s); err != nil {
		return fmt.Errorf("source %w", err)
	}
	return nil
}

// CheckMirror checks the form of a mirror. The error names no subject: the caller does.
func CheckMirror(s string) error {
	_, rest, scheme := strings.Cut(s, "://")
	bare := strings.TrimRight(rest, "/")
	switch {
	case location.MatchString(s):
		return nil
	case s == "":
		return errors.New("is missing")
	case scheme && location.MatchString(bare):
		return fmt.Errorf("%q has a scheme; write %s", s, bare)
	}
	if m := tag.FindStringSubmatch(s); m[1] != s && location.MatchString(m[1]) {
		return fmt.Errorf("%q has a tag or a digest, and mirrors are for whole repositories; write %s", s, m[1])
	}
	return fmt.Errorf("%q does not have the form host[:port][/path]", s)
}
