package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// origins tell the names that images had before they were mirrored. A place that
// several names lead to has none.
type origins struct {
	// mapping has names by what they became in a mirror, without what stands there before
	// what oc-mirror keeps; cached and logged by what they became in its cache.
	mapping, cached, logged map[string][]string
	// pulled has those in the log that have a digest, by that.
	pulled map[digest.Digest][]string
	// failed are tags that the newest run could not copy, and complete says that logged has
	// all that it was to copy.
	failed   []string
	complete bool
	// sources are repositories or parts of them, likewise.
	sources map[string][]string
	// release is the repository of the one release that was asked for by its name.
	release string
	// releases have the repositories of release images.
	releases map[digest.Digest]string
	// tagged has the digests of releases by the tag in the names of signatures.
	tagged map[string]digest.Digest
}

// readOrigins collects names from all files that oc-mirror keeps for itself.
func (r *workspace) readOrigins() error {
	r.origins = origins{
		mapping: map[string][]string{}, cached: map[string][]string{}, logged: map[string][]string{},
		pulled: map[digest.Digest][]string{}, sources: map[string][]string{}, releases: map[digest.Digest]string{},
		tagged: map[string]digest.Digest{},
	}
	for _, name := range r.names {
		below, ok := strings.CutPrefix(name, workingDir)
		if !ok {
			continue
		}
		var read func(name string, content []byte) error
		switch dir, base := path.Split(below); {
		case strings.HasPrefix(dir, MappingDir[len(workingDir):]) && base == MappingFile:
			read = r.origins.readMapping
		case dir == "logs/" && strings.HasPrefix(base, "oc-mirror-"):
			read = r.origins.readLog // the newest is the last
		case dir == "cluster-resources/" && (strings.HasPrefix(base, "idms-") || strings.HasPrefix(base, "itms-")):
			read = r.origins.readMirrors
		case dir == "signatures/":
			read = r.origins.readSignature
		case dir == "hold-release/cincinnati-graph-data/" && path.Ext(base) == ".json":
			read = r.origins.readGraph
		default:
			continue
		}
		content, err := r.files.ReadFile(name)
		if err == nil {
			err = read(name, content)
		}
		if err != nil { // the names may stand elsewhere too
			r.warn("%s tells no names: %v", name, err)
		}
	}
	shift := prefixParts(r.tags, r.origins.sources, r.origins.mapping)
	r.origins.sources, r.origins.mapping = cutAll(r.origins.sources, shift), cutAll(r.origins.mapping, shift)
	if r.set == nil || r.set.Mirror.Platform.Release == "" {
		return nil
	}
	ref, _, err := parseMirrored(r.set.Mirror.Platform.Release, r.set.origin+": mirror.platform.release")
	r.origins.release = ref.Repository
	return err
}

// MappingFile is what a dry run writes, and MappingDir where to.
const (
	MappingFile = "mapping.txt"
	MappingDir  = workingDir + "dry-run/"
)

// readMapping reads lines of docker://SOURCE=docker://MIRROR. Those of disk to
// mirror come from the cache of oc-mirror, and those of folders from none: they have
// no names. Nor do instances of a list, which are there by their digests.
func (o *origins) readMapping(_ string, content []byte) error {
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		from, to, _ := strings.Cut(scanner.Text(), "=docker://")
		name, _, ok := parseCopied(from)
		host, tag, _ := strings.Cut(to, "/")
		if !ok || strings.Contains(tag, "@") {
			continue
		}
		if host+"/" == cachePrefix {
			addName(o.cached, tag, name)
		} else {
			addName(o.mapping, tag, name)
		}
	}
	return scanner.Err()
}

var (
	// Lines of a run whose output is no terminal: logImageSuccess and logImageError in
	// internal/pkg/batch of oc-mirror.
	logCopied = regexp.MustCompile(`(Success copying|Failed to copy \S+) (\S+)`)
	// Worker there, on a terminal as well.
	logToCopy = regexp.MustCompile(`images to copy (\d+)`)
)

// readLog reads what a run was to copy, instead of what an earlier one was.
func (o *origins) readLog(_ string, content []byte) error {
	clear(o.logged)
	clear(o.pulled)
	o.failed = nil
	copied := logCopied.FindAllSubmatch(content, -1)
	for _, line := range copied {
		name, tag, ok := parseCopied(string(line[2]))
		if !ok {
			continue
		}
		if strings.HasPrefix(string(line[1]), "Failed") {
			o.failed = append(o.failed, tag)
		}
		addName(o.logged, tag, name)
		if d := pinned(name); d != "" {
			addName(o.pulled, d, name)
		}
	}
	all := logToCopy.FindSubmatch(content)
	o.complete = all != nil && string(all[1]) == strconv.Itoa(len(copied)) && len(copied) > 0
	return nil
}

// recorded reads the name of an image that was copied, and gives the tag under which it
// is kept. Without a registry it came from docker.io: the transport of docker in
// containers/image knows no other. What came from the cache has no name.
func parseCopied(text string) (name, tag string, ok bool) {
	text = strings.TrimPrefix(text, "docker://")
	ref, _, err := pinset.Expand(text)
	if err != nil || strings.Contains(text, "://") || strings.HasPrefix(text, cachePrefix) {
		return "", "", false
	}
	if ref.Digest != "" {
		ref.Tag = "" // as in a mapping
	}
	return ref.String(), mirrorTag(text, ref.Digest), true
}

func addName[K comparable](names map[K][]string, at K, name string) {
	if !slices.Contains(names[at], name) {
		names[at] = append(names[at], name)
	}
}

// readMirrors reads what a cluster would be told.
func (o origins) readMirrors(name string, content []byte) error {
	m := mirrorReader{origin: name}
	if err := m.stream(bytes.NewReader(content)); err != nil {
		return err
	}
	for _, rule := range m.rules {
		for _, mirror := range rule.Mirrors {
			_, below, _ := strings.Cut(mirror, "/")
			addName(o.sources, below, rule.Source)
		}
	}
	return nil
}

// readSignature takes the name that a release was signed under, which nothing is
// trusted for but the name.
func (o origins) readSignature(name string, content []byte) error {
	claimed, d, err := storage.Claimed(content)
	if err != nil {
		return err
	}
	ref, err := pinset.ParseReference(claimed)
	if err != nil {
		return err
	}
	o.releases[d] = ref.Repository
	if tag, ok := strings.CutSuffix(path.Base(name), "-"+strings.Replace(d.String(), ":", "-", 1)); ok {
		o.tagged[tag] = d
	}
	return nil
}

func (o origins) readGraph(_ string, content []byte) error {
	var graph struct{ Nodes []struct{ Payload string } }
	if err := json.Unmarshal(content, &graph); err != nil {
		return err
	}
	for _, n := range graph.Nodes {
		ref, err := pinset.ParseReference(n.Payload)
		if err != nil {
			return err
		}
		o.releases[ref.Digest] = ref.Repository
	}
	return nil
}

// prefixParts finds out how many parts of their paths all mirrors have before what oc-
// mirror keeps: as many as let the most of them be where a kept tag is.
func prefixParts(tags map[string]digest.Digest, mirrors ...map[string][]string) int {
	kept := map[string]bool{} // tags, their repositories, and what these are in
	for tag := range tags {
		kept[tag] = true
		for i, c := range tag {
			if c == '/' || c == ':' {
				kept[tag[:i]] = true
			}
		}
	}
	var found [10]int // no registry has more
	for _, names := range mirrors {
		for mirror := range names {
			for n := range found {
				if below, ok := cutParts(mirror, n); ok && kept[below] {
					found[n]++
				}
			}
		}
	}
	return slices.Index(found[:], slices.Max(found[:]))
}

// cutParts takes parts from the front of a path, and leaves one at least.
func cutParts(path string, n int) (below string, ok bool) {
	for below, ok = path, true; n > 0 && ok; n-- {
		_, below, ok = strings.Cut(below, "/")
	}
	return below, ok
}

// cutAll does so with the places of names.
func cutAll(names map[string][]string, n int) map[string][]string {
	all := map[string][]string{}
	for place, more := range names {
		below, ok := cutParts(place, n)
		for _, name := range more {
			if ok {
				addName(all, below, name)
			}
		}
	}
	return all
}

// only is the one name of a place.
func single(names []string) (name string, ok bool) {
	for i, other := range names {
		if i > 0 && other != name {
			return "", false
		}
		name = other
	}
	return name, len(names) > 0
}

// names of an image by its tag or, if a log has no such tag, by its digest: as a dry run or
// the newest run tells them.
func (o origins) names(tag string, stored digest.Digest) []string {
	if names := slices.Concat(o.mapping[tag], o.cached[tag], o.logged[tag]); len(names) > 0 {
		return names
	}
	return o.pulled[stored]
}

// mapped finds the one name of an image.
func (o origins) mapped(tag string, stored digest.Digest) (pinset.Reference, bool) {
	name, ok := single(o.names(tag, stored))
	if !ok {
		return pinset.Reference{}, false
	}
	ref, err := pinset.ParseReference(name)
	return ref, err == nil
}

// mirrored finds it as the mirror sets tell it: that of the longest part of the path
// counts.
func (o origins) mirrored(tag string) (pinset.Reference, bool) {
	repository, name, _ := strings.Cut(tag, ":")
	name = ":" + name
	if hex, ok := strings.CutPrefix(name, ":sha256-"); ok {
		name = "@sha256:" + hex
	}
	for part, rest := repository, ""; part != "."; part, rest = path.Dir(part), path.Join(path.Base(part), rest) {
		if source, ok := single(o.sources[part]); ok {
			ref, err := pinset.ParseReference(path.Join(source, rest) + name)
			return ref, err == nil
		}
	}
	return pinset.Reference{}, false
}
