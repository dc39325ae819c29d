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

// origins have the names of images before they were mirrored. A tag with several names has no valid
// name.
type origins struct {
	// mapping has names by their tags in a mirror, without the prefix of the mirror; cached and
	// logged by their tags in the cache of oc-mirror.
	mapping, cached, logged map[string][]string
	// pulled has the names in the log that have a digest, by the digest.
	pulled map[digest.Digest][]string
	// failed are tags that the newest run could not copy, and complete is true if logged has all
	// images of that run.
	failed   []string
	complete bool
	// sources are original repositories or parts of them, by those in a mirror.
	sources map[string][]string
	// release is the repository of the release that was requested by its name.
	release string
	// releases have the repositories of release images, by digest.
	releases map[digest.Digest]string
	// tagged has the digests of releases by the tag in the names of signatures.
	tagged map[string]digest.Digest
}

// readOrigins collects names from the files in oc-mirror's working-dir.
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
			read = r.origins.readLog // the newest is read last
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
		if err != nil { // other files may have the names too
			r.warn("%s: names are not read: %v", name, err)
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

// MappingFile is the file that a dry run writes to MappingDir.
const (
	MappingFile = "mapping.txt"
	MappingDir  = workingDir + "dry-run/"
)

// readMapping reads lines of docker://SOURCE=docker://MIRROR. It skips lines without an original
// name: the source is oc-mirror's cache (disk to mirror) or a folder, or the target is an instance
// of an index, by its digest.
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
	// Lines of a run without a terminal: logImageSuccess and logImageError in internal/pkg/batch of
	// oc-mirror.
	logCopied = regexp.MustCompile(`(Success copying|Failed to copy \S+) (\S+)`)
	// From Worker in the same package, with a terminal too.
	logToCopy = regexp.MustCompile(`images to copy (\d+)`)
)

// readLog reads the images of a run, and forgets the images of an earlier log.
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

// parseCopied parses the name of a copied image, and returns its tag in the mirror. A name without
// a registry is from docker.io, as in containers/image's docker transport. An image from the cache
// has no original name.
func parseCopied(text string) (name, tag string, ok bool) {
	text = strings.TrimPrefix(text, "docker://")
	ref, _, err := pinset.Expand(text)
	if err != nil || strings.Contains(text, "://") || strings.HasPrefix(text, cachePrefix) {
		return "", "", false
	}
	if ref.Digest != "" {
		ref.Tag = "" // as in mapping.txt
	}
	return ref.String(), mirrorTag(text, ref.Digest), true
}

// addName adds a name once.
func addName[K comparable](names map[K][]string, at K, name string) {
	if !slices.Contains(names[at], name) {
		names[at] = append(names[at], name)
	}
}

// readMirrors reads the mirror sets that oc-mirror wrote for a cluster.
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

// readSignature reads the name of a release from its signature. The signature is not verified: only
// the name is used.
func (o origins) readSignature(name string, content []byte) error {
	claim, err := storage.UntrustedClaim(content)
	if err == nil {
		err = claim.OfOpenPGP()
	}
	if err != nil {
		return err
	}
	ref, err := pinset.ParseReference(claim.Name)
	if err != nil {
		return err
	}
	o.releases[claim.Digest] = ref.Repository
	if tag, ok := strings.CutSuffix(path.Base(name), "-"+strings.Replace(claim.Digest.String(), ":", "-", 1)); ok {
		o.tagged[tag] = claim.Digest
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

// prefixParts returns how many parts of a path are the prefix of the mirror: the number for which
// the most paths match a tag of oc-mirror.
func prefixParts(tags map[string]digest.Digest, mirrors ...map[string][]string) int {
	known := map[string]bool{} // tags, their repositories, and the parents of these
	for tag := range tags {
		known[tag] = true
		for i, c := range tag {
			if c == '/' || c == ':' {
				known[tag[:i]] = true
			}
		}
	}
	var found [10]int // no registry has more
	for _, names := range mirrors {
		for mirror := range names {
			for n := range found {
				if below, ok := cutParts(mirror, n); ok && known[below] {
					found[n]++
				}
			}
		}
	}
	return slices.Index(found[:], slices.Max(found[:]))
}

// cutParts removes the first n parts of a path. ok is false if no part is left.
func cutParts(path string, n int) (below string, ok bool) {
	for below, ok = path, true; n > 0 && ok; n-- {
		_, below, ok = strings.Cut(below, "/")
	}
	return below, ok
}

// cutAll removes the first n parts of all keys.
func cutAll(names map[string][]string, n int) map[string][]string {
	all := map[string][]string{}
	for tag, more := range names {
		below, ok := cutParts(tag, n)
		for _, name := range more {
			if ok {
				addName(all, below, name)
			}
		}
	}
	return all
}

// single returns the name if there is exactly one.
func single(names []string) (name string, ok bool) {
	for i, other := range names {
		if i > 0 && other != name {
			return "", false
		}
		name = other
	}
	return name, len(names) > 0
}

// names of an image by its tag or, if no file has the tag, by its digest.
func (o origins) names(tag string, stored digest.Digest) []string {
	if names := slices.Concat(o.mapping[tag], o.cached[tag], o.logged[tag]); len(names) > 0 {
		return names
	}
	return o.pulled[stored]
}

// mapped finds the name of an image in mappings and logs.
func (o origins) mapped(tag string, stored digest.Digest) (pinset.Reference, bool) {
	name, ok := single(o.names(tag, stored))
	if !ok {
		return pinset.Reference{}, false
	}
	ref, err := pinset.ParseReference(name)
	return ref, err == nil
}

// mirrored finds the name of an image in mirror sets. The longest part of the path wins.
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
