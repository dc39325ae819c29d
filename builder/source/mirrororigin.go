package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// origins tell the names that images had before they were mirrored. A place that
// several names lead to has none.
type origins struct {
	// mapping has names by what they became in a mirror, without its host.
	mapping map[string][]string
	// sources are repositories or parts of them, likewise.
	sources map[string][]string
	// shift is how many parts of a path the mirror has put before those.
	shift int
	// release is the repository of the one release that was asked for by its name.
	release string
	// releases have the repositories of release images.
	releases map[digest.Digest]string
	// tagged has the digests of releases by the tag in the names of signatures.
	tagged map[string]digest.Digest
}

// readOrigins collects names from all files that oc-mirror keeps for itself.
func (r *workspace) readOrigins() error {
	r.origins = origins{mapping: map[string][]string{}, sources: map[string][]string{}, releases: map[digest.Digest]string{}, tagged: map[string]digest.Digest{}}
	for _, name := range r.names {
		below, ok := strings.CutPrefix(name, workingDir)
		if !ok {
			continue
		}
		var read func(name string, content []byte) error
		switch dir, base := path.Split(below); {
		case dir == "dry-run/" && base == "mapping.txt":
			read = r.origins.readMapping
		case dir == "cluster-resources/" && strings.HasPrefix(base, "idms-"), dir == "cluster-resources/" && strings.HasPrefix(base, "itms-"):
			read = r.origins.readMirrors
		case dir == "signatures/":
			read = r.origins.readSignature
		case dir == "hold-release/cincinnati-graph-data/" && path.Ext(base) == ".json":
			read = r.origins.readGraph
		default:
			continue
		}
		content, err := r.files.ReadFile(name)
		if err != nil {
			return err
		}
		if err := read(name, content); err != nil { // the names may stand elsewhere too
			r.warn("%s tells no names: %v", name, err)
		}
	}
	r.origins.shift = shiftOf(slices.Concat(slices.Collect(maps.Keys(r.origins.sources)), slices.Collect(maps.Keys(r.origins.mapping))), slices.Collect(maps.Keys(r.tags)))
	if r.set == nil || r.set.Mirror.Platform.Release == "" {
		return nil
	}
	ref, _, err := parseMirrored(r.set.Mirror.Platform.Release, r.set.origin+": mirror.platform.release")
	r.origins.release = ref.Repository
	return err
}

// readMapping reads lines of docker://SOURCE=docker://MIRROR. Those of disk to
// mirror come from the cache of oc-mirror, and those of folders from none: they have
// no names.
func (o origins) readMapping(_ string, content []byte) error {
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		from, to, _ := strings.Cut(scanner.Text(), "=docker://")
		if strings.HasPrefix(from, "docker://"+cachePrefix) {
			continue
		}
		if _, _, err := parseMirrored(from, ""); err == nil {
			_, tag, _ := strings.Cut(to, "/")
			note(o.mapping, tag, strings.TrimPrefix(from, "docker://"))
		}
	}
	return scanner.Err()
}

func note(names map[string][]string, at, name string) {
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
			note(o.sources, below, rule.Source)
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

// shiftOf finds out how many parts of their paths all mirrors have before what oc-
// mirror keeps: as many as let the most of them be where a kept tag is.
func shiftOf(mirrors, tags []string) (shift int) {
	most := 0
	for n := range 10 { // no registry has more
		found := 0
		for _, m := range mirrors {
			if below, ok := cutParts(m, n); ok && slices.ContainsFunc(tags, func(tag string) bool {
				return tag == below || strings.HasPrefix(tag, below+"/") || strings.HasPrefix(tag, below+":")
			}) {
				found++
			}
		}
		if found > most {
			shift, most = n, found
		}
	}
	return shift
}

// cutParts takes parts from the front of a path, and leaves one at least.
func cutParts(path string, n int) (string, bool) {
	parts := strings.Split(path, "/")
	if len(parts) <= n {
		return "", false
	}
	return strings.Join(parts[n:], "/"), true
}

// at finds the one name of a place.
func (o origins) at(names map[string][]string, place string) (name string, ok bool) {
	for mirror, all := range names {
		if below, _ := cutParts(mirror, o.shift); below != place {
			continue
		}
		if name != "" || len(all) > 1 {
			return "", false
		}
		name = all[0]
	}
	return name, name != ""
}

// mapped finds the name of an image by its tag, as a dry run tells it.
func (o origins) mapped(tag string) (pinset.Reference, bool) {
	name, ok := o.at(o.mapping, tag)
	if !ok {
		return pinset.Reference{}, false
	}
	ref, _, err := parseMirrored(name, "")
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
		if source, ok := o.at(o.sources, part); ok {
			ref, err := pinset.ParseReference(path.Join(source, rest) + name)
			return ref, err == nil
		}
	}
	return pinset.Reference{}, false
}
