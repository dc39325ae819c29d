package storage

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"go.podman.io/image/v5/docker/reference"
	"go.podman.io/image/v5/pkg/sysregistriesv2"
)

// CheckHost checks that a registry is named as in names of images: HOST or HOST:PORT.
func CheckHost(host string) error {
	named, err := reference.ParseNormalizedNamed(host + "/image")
	if err != nil || reference.Domain(named) != host {
		return fmt.Errorf("%q is not the host of a registry: write it as in names of images, HOST or HOST:PORT", host)
	}
	return nil
}

// withInsecure returns the entries of registries.conf in which these hosts are insecure, as
// registries and as mirrors. A host without a port is insecure at every port; a host without an
// entry gets one. The library matches an entry without a port with names that have one, and says
// that this may change (refMatchingPrefix in system_registries_v2.go).
func withInsecure(entries []sysregistriesv2.Registry, hosts []string) (all []sysregistriesv2.Registry) {
	for _, host := range hosts {
		if !slices.ContainsFunc(entries, func(r sysregistriesv2.Registry) bool { return prefix(r) == host }) {
			entries = append(entries, entryOf(host, entries))
		}
	}
	mark := func(e *sysregistriesv2.Endpoint) {
		host, _, _ := strings.Cut(e.Location, "/")
		e.Insecure = e.Insecure || slices.Contains(hosts, host) || slices.Contains(hosts, hostname(host))
	}
	for _, r := range entries {
		r.Mirrors = slices.Clone(r.Mirrors) // they belong to the library
		mark(&r.Endpoint)
		for i := range r.Mirrors {
			mark(&r.Mirrors[i])
		}
		all = append(all, r)
	}
	return all
}

// prefix of the names that an entry is for.
func prefix(r sysregistriesv2.Registry) string { return cmp.Or(r.Prefix, r.Location) }

// entryOf returns an entry for a host, which says what the entry for its domain, such as
// *.example.com, says: the library uses only the entry with the longest prefix.
func entryOf(host string, entries []sysregistriesv2.Registry) sysregistriesv2.Registry {
	var widest sysregistriesv2.Registry
	name, _, _ := strings.Cut(host, ":")
	for _, r := range entries {
		domain, ok := strings.CutPrefix(prefix(r), "*")
		if ok && strings.HasSuffix(name, domain) && len(prefix(r)) > len(widest.Prefix) {
			widest = r
		}
	}
	widest.Prefix, widest.Location = host, cmp.Or(widest.Location, host)
	return widest
}

func hostname(host string) string { return (&url.URL{Host: host}).Hostname() }
