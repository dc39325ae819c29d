package source

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/storage"
	"github.com/pinbox/pinbox/storage/pinset"
)

// origins tell the names that images had before they were mirrored.
type origins struct {
	// mapping has the names by their tags in the mirror.
	mapping map[string]pinset.Reference
	// sources are repositories or parts of them, by their mirrors without the host.
	sources map[string]string
	// releases have the repositories of release images.
	releases map[digest.Digest]string
	// tagged has the digests of releases by the tag in the names of signatures.
	tagged map[string]digest.Digest
}

// readOrigins collects names from all files that oc-mirror keeps for itself.
func (r *workspace) readOrigins() error {
	r.origins = origins{map[string]pinset.Reference{}, map[string]string{}, map[digest.Digest]string{}, map[string]digest.Digest{}}
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
		if err == nil {
			err = read(name, content)
		}
		if err != nil {
			return fmt.Errorf("%w: %s: %w", ErrOCMirror, name, err)
		}
	}
	if r.set == nil || r.set.Mirror.Platform.Release == "" {
		return nil
	}
	ref, err := pinset.ParseReference(r.set.Mirror.Platform.Release)
	if err != nil {
		return fmt.Errorf("%s: mirror.platform.release: %w", r.set.origin, err)
	}
	if ref.Digest != "" {
		r.origins.releases[ref.Digest] = ref.Repository
	}
	return nil
}

// readMapping reads lines of docker://SOURCE=docker://MIRROR. Those of disk to
// mirror come from the cache of oc-mirror, and have no names.
func (o origins) readMapping(_ string, content []byte) error {
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		from, to, ok := strings.Cut(scanner.Text(), "=docker://")
		if !ok || strings.HasPrefix(from, "docker://localhost:") {
			continue
		}
		named, err := parse(from, "mapping")
		if err != nil {
			return err
		}
		_, tag, _ := strings.Cut(to, "/")
		o.mapping[tag] = named.Reference
	}
	return scanner.Err()
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
			o.sources[below] = rule.Source
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

// of finds the name of an image by its tag in the mirror.
func (o origins) of(tag string) (pinset.Reference, bool) {
	if mirrored, ok := endsWith(o.mapping, tag); ok {
		return o.mapping[mirrored], true
	}
	repository, name, _ := strings.Cut(tag, ":")
	name = ":" + name
	if hex, ok := strings.CutPrefix(name, ":sha256-"); ok {
		name = "@sha256:" + hex
	}
	for part, rest := repository, ""; part != "."; part, rest = path.Dir(part), path.Join(path.Base(part), rest) {
		if mirror, ok := endsWith(o.sources, part); ok {
			ref, err := pinset.ParseReference(path.Join(o.sources[mirror], rest) + name)
			return ref, err == nil
		}
	}
	return pinset.Reference{}, false
}

// endsWith finds what has a name by itself, or behind a part of the path that the
// mirror has put before it.
func endsWith[T any](all map[string]T, name string) (string, bool) {
	if _, ok := all[name]; ok {
		return name, true
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if strings.HasSuffix(key, "/"+name) {
			return key, true
		}
	}
	return "", false
}
