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

	"github.com/pinbox/pinbox/storage/pinset"
)

// held is a release of which oc-mirror keeps the manifests.
type held struct {
	file string
	// Name of its repository's last part, and its tag, "" if it was asked for by digest.
	base, tag string
	digest    digest.Digest
	version   semver.Version // of the tag
}

var (
	// By digest, oc-mirror makes a folder of what stands before the colon.
	heldRelease = regexp.MustCompile(`^working-dir/hold-release/([^/@]+)(@sha256)?/([^/]+)/release-manifests/image-references$`)
	releaseArch = regexp.MustCompile(`^(.*)-(x86_64|amd64|aarch64|arm64|ppc64le|s390x|multi)$`)
)

// releases finds those that were asked for last: a workspace keeps all that it
// ever had.
func (r *workspace) releases() error {
	var all []held
	for _, name := range r.names {
		m := heldRelease.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		h := held{file: name, base: m[1], tag: m[3]}
		if m[2] != "" {
			h.tag, h.digest = "", digest.NewDigestFromEncoded(digest.SHA256, m[3])
		} else if h.digest = r.tags[releaseImages+":"+h.tag]; h.digest == "" {
			h.digest = r.origins.tagged[h.tag]
		}
		version, fits := r.fits(h.tag)
		if v, err := semver.NewVersion(version); err == nil {
			h.version = *v
		}
		if fits {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b held) int { return a.version.Compare(b.version) })
	wanted := slices.DeleteFunc(slices.Clone(all), func(h held) bool { return !r.wants(h, all) })
	if p := r.set; p != nil && len(wanted) == 0 && (len(p.Mirror.Platform.Channels) > 0 || p.Mirror.Platform.Release != "") {
		return fmt.Errorf("%w: %s asks for a release, and working-dir/hold-release has none for it", ErrOCMirror, p.origin)
	}
	for _, h := range wanted {
		ref, err := r.nameOf(h)
		if err != nil {
			return err
		}
		r.found.Releases = append(r.found.Releases, ref)
	}
	return nil
}

// fits splits a tag, and says whether a release is for the nodes' architecture.
func (r *workspace) fits(tag string) (version string, fits bool) {
	m := releaseArch.FindStringSubmatch(tag)
	if m == nil {
		return tag, true
	}
	arch := cmp.Or(map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[m[2]], m[2])
	return m[1], arch == "multi" || arch == r.arch
}

// wants says whether the configuration asks for a release; all are those that are
// there, the newest last.
func (r *workspace) wants(h held, all []held) bool {
	if r.set == nil {
		return true
	}
	p := r.set.Mirror.Platform
	if ref, err := pinset.ParseReference(p.Release); err == nil {
		return h.digest == ref.Digest || ref.Digest == "" && h.base == path.Base(ref.Repository) && h.tag == ref.Tag
	}
	return slices.ContainsFunc(p.Channels, func(c Channel) bool {
		if c.MinVersion == "" && c.MaxVersion == "" && !c.Full { // the channel's head
			return h.version == newestOf(c.Name, all)
		}
		lowest, errLowest := semver.NewVersion(c.MinVersion)
		highest, errHighest := semver.NewVersion(c.MaxVersion)
		return (errLowest != nil || !h.version.LessThan(*lowest)) && (errHighest != nil || !highest.LessThan(h.version))
	})
}

// newestOf is the newest release of a channel such as stable-4.20.
func newestOf(channel string, all []held) (newest semver.Version) {
	_, minor, _ := strings.Cut(channel, "-")
	for _, h := range all {
		if strings.HasPrefix(h.version.String(), minor+".") {
			newest = h.version
		}
	}
	return newest
}

// nameOf restores the name of a release.
func (r *workspace) nameOf(h held) (Mirrored, error) {
	m := Mirrored{Stored: h.digest, References: h.file}
	m.Repository = r.origins.releases[h.digest]
	if ref, ok := r.origins.of(releaseImages + ":" + h.tag); ok && m.Repository == "" {
		m.Repository = ref.Repository
	}
	if m.Repository == "" {
		return m, fmt.Errorf("%w: nothing tells the name of the release %s: neither a signature nor the graph, a mapping or a mirror set", ErrOCMirror, cmp.Or(h.tag, h.digest.String()))
	}
	m.Tag = h.tag
	if h.tag == "" {
		m.Digest = h.digest
	}
	if h.digest == "" && len(r.tags) > 0 {
		return m, fmt.Errorf("%w: it has no %s, which it should have as %s:%s", ErrOCMirror, m.Reference, releaseImages, h.tag)
	}
	return m, nil
}
