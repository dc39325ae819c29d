package source

import (
	"cmp"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/coreos/go-semver/semver"
	"github.com/opencontainers/go-digest"
)

// heldRelease is a release whose manifests are in working-dir/hold-release.
type heldRelease struct {
	file string
	// base is the last part of its repository. tag is "" if it was requested by digest.
	base, tag string
	digest    digest.Digest
	version   semver.Version // of the tag
}

var (
	// With a digest, oc-mirror makes a folder for the part before the colon.
	releaseManifests = regexp.MustCompile(`^working-dir/hold-release/([^/@]+)(@sha256)?/([^/]+)/` + ImageReferences + `$`)
	releaseArch      = regexp.MustCompile(`^(.*)-(x86_64|amd64|aarch64|arm64|ppc64le|s390x|multi)$`)
)

// releaseFinder finds the releases that the configuration requests.
type releaseFinder struct{ *workspace }

// find finds the releases that the last run requested: a workspace keeps the releases of all runs.
func (r releaseFinder) find() error {
	all, others, err := r.held()
	if err != nil {
		return err
	}
	wants, err := r.requested(all)
	if err != nil {
		return err
	}
	for _, h := range all {
		if !wants(h) {
			continue
		}
		m, err := r.restoreName(h)
		if err != nil {
			return err
		}
		if !r.set.Blocked(m.String(), releaseImages+":"+h.tag) {
			r.found.Releases = append(r.found.Releases, m)
		}
	}
	if r.set == nil || len(r.found.Releases) > 0 || len(r.set.blocked) > 0 {
		return nil
	}
	if p := r.set.Mirror.Platform; len(p.Channels) > 0 || p.Release != "" {
		err = fmt.Errorf("a release, which %s requests, %w: working-dir/hold-release does not have it",
			r.origin, ErrNotMirrored)
		if len(others) > 0 {
			err = fmt.Errorf("%w on %s, but %s", err, r.arch, strings.Join(others, ", "))
		}
	}
	return err
}

// held lists the releases for the architecture of the nodes, the newest last, and the tags of those
// for others.
func (r releaseFinder) held() (all []heldRelease, others []string, err error) {
	for _, name := range r.names {
		m := releaseManifests.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		h := heldRelease{file: name, base: m[1], tag: m[3]}
		if m[2] != "" {
			h.tag, h.digest = "", digest.NewDigestFromEncoded(digest.SHA256, m[3])
			if err := h.digest.Validate(); err != nil {
				return nil, nil, fmt.Errorf("%w: %s: %w", ErrOCMirror, name, err)
			}
		} else if h.digest = r.tags[releaseImages+":"+h.tag]; h.digest == "" {
			h.digest = r.origins.tagged[h.tag]
		}
		version, matches := r.matchArch(h.tag)
		if !matches {
			others = append(others, h.tag)
			continue
		}
		if h.tag == "" {
			version = r.versionIn(name)
		}
		if v, err := semver.NewVersion(version); err == nil {
			h.version = *v
		}
		all = append(all, h)
	}
	slices.SortStableFunc(all, func(a, b heldRelease) int { return a.version.Compare(b.version) })
	return all, others, nil
}

// versionIn reads the version in the manifests of a release, "" if there is none.
func (r releaseFinder) versionIn(references string) string {
	content, err := r.files.ReadFile(references)
	if err != nil {
		return ""
	}
	release, err := ParsePayload(content, nil)
	if err != nil {
		return ""
	}
	return release.Version
}

// matchArch splits the architecture from a tag, and reports whether it is the one of the nodes.
func (r releaseFinder) matchArch(tag string) (version string, matches bool) {
	m := releaseArch.FindStringSubmatch(tag)
	if m == nil {
		return tag, true
	}
	arch := cmp.Or(map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[m[2]], m[2])
	return m[1], arch == "multi" || arch == r.arch
}

// requested returns a filter for the releases that the configuration requests. all are the
// releases in the workspace, the newest last.
func (r releaseFinder) requested(all []heldRelease) (func(heldRelease) bool, error) {
	if r.set == nil {
		return func(heldRelease) bool { return true }, nil
	}
	if text := r.set.Mirror.Platform.Release; text != "" {
		ref, _, err := parseMirrored(text, r.origin+": mirror.platform.release")
		version, _ := r.matchArch(ref.Tag)
		return func(h heldRelease) bool {
			if ref.Digest != "" {
				return h.digest == ref.Digest
			}
			return h.base == path.Base(ref.Repository) && (h.tag == ref.Tag || h.tag == "" && h.version.String() == version)
		}, err
	}
	var ranges []versions
	for _, c := range r.set.Mirror.Platform.Channels {
		v, err := c.versions(all)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: channel %s: %w", ErrImageSetConfig, r.origin, c.Name, err)
		}
		ranges = append(ranges, v)
	}
	if len(ranges) > 1 { // and all between them, for an upgrade from one channel to the next
		all := ranges[0]
		for _, v := range ranges[1:] {
			all = all.cover(v)
		}
		ranges = []versions{all}
	}
	return func(h heldRelease) bool {
		return slices.ContainsFunc(ranges, func(v versions) bool { return v.contains(h.version) })
	}, nil
}

// restoreName finds the original name of a release.
func (r releaseFinder) restoreName(h heldRelease) (MirroredImage, error) {
	m := MirroredImage{Stored: h.digest, References: h.file}
	if r.set != nil {
		m.FilteredBy = r.filteredBy("mirror.platform.platforms", r.set.Mirror.Platform.Platforms)
	}
	m.Repository = cmp.Or(r.origins.release, r.origins.releases[h.digest])
	tag := releaseImages + ":" + h.tag
	if ref, ok := r.origins.mapped(tag, h.digest); ok && m.Repository == "" {
		m.Repository = ref.Repository
	}
	if ref, ok := r.origins.mirrored(tag); ok && m.Repository == "" {
		m.Repository = ref.Repository
	}
	if m.Repository == "" {
		return m, fmt.Errorf("%w: the name of the release %s is in no signature, graph, "+
			"mapping or mirror set", ErrOCMirror, cmp.Or(h.tag, h.digest.String()))
	}
	m.Tag = h.tag
	if h.tag == "" {
		m.Digest = h.digest
	}
	if h.digest == "" && len(r.tags) > 0 {
		return m, fmt.Errorf("%s %w: there is no %s:%s", m.Reference, ErrNotMirrored, releaseImages, h.tag)
	}
	return m, nil
}

// versions is the range from lowest to highest, both included.
type versions struct{ lowest, highest semver.Version }

func (v versions) contains(one semver.Version) bool {
	return !one.LessThan(v.lowest) && !v.highest.LessThan(one)
}

// cover returns the range that covers both.
func (v versions) cover(other versions) versions {
	if other.lowest.LessThan(v.lowest) {
		v.lowest = other.lowest
	}
	if v.highest.LessThan(other.highest) {
		v.highest = other.highest
	}
	return v
}

// versions returns the range that a channel requests: without bounds its newest version.
func (c Channel) versions(all []heldRelease) (v versions, err error) {
	newest := c.newest(all)
	v = versions{newest, newest}
	if c.Full || c.MaxVersion != "" {
		v.lowest = semver.Version{}
	}
	for _, bound := range []struct {
		text string
		at   *semver.Version
	}{{c.MinVersion, &v.lowest}, {c.MaxVersion, &v.highest}} {
		if bound.text == "" {
			continue
		}
		parsed, err := semver.NewVersion(bound.text)
		if err != nil {
			return v, err
		}
		*bound.at = *parsed
	}
	return v, nil
}

// channelMinor is the number in names such as stable-4.20, 4-scos-stable and
// stable-scos-4.
var channelMinor = regexp.MustCompile(`\d+(?:\.\d+)*`)

func (c Channel) newest(all []heldRelease) (newest semver.Version) {
	minor := channelMinor.FindString(c.Name) + "."
	for _, h := range all {
		if strings.HasPrefix(h.version.String(), minor) {
			newest = h.version
		}
	}
	return newest
}
