package builder

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/runbook"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/pinset"
)

// runbookOf describes what is built for its runbook. releases are those of OpenShift that the bases of a delta lack.
func runbookOf(
	o Options, p *plan, delta *base.Common, store artifact.Store, releases []openshift.Release,
) runbook.Built {
	s := o.Appliance.Spec
	place := s.Config(nil, nil)
	if s.OpenShift != nil {
		place.Node = openshift.Installed(place)
	}
	b := runbook.Built{
		ReleaseID: p.lock.ReleaseID, Images: p.lock.Totals().Images,
		Store: store.Name, Size: store.Size, Sum: store.Sum,
		Node: runbook.Place{
			Path: place.Store.Path, PartitionLabel: place.Store.PartitionLabel, VolumeLabel: place.Store.VolumeLabel,
			URL: place.Store.URL, Folder: place.Store.Folder,
		},
		Kubeadm: kubeadm(p.lock), MicroShift: microShift(s), ISO: p.base != nil,
		Installs: s.ISO.InstallDevice, Delta: delta != nil, Signed: !o.Signer.IsZero(),
		OpenShift: s.OpenShift, Sets: p.sets,
	}
	if p.base != nil {
		b.ISOSize = p.base.Size
		if b.Node.VolumeLabel == "" && b.Node.URL == "" {
			b.ISOSize += store.Size
		}
	}
	if delta != nil {
		b.Releases = releases
		if delta.Delta.Thin != nil {
			b.Made = delta.Delta.Thin.StoreSize
		}
	}
	return b
}

// kubeadm is the version of Kubernetes whose API server has a tag in the lock, which kubeadm runs as a pod; "" if none.
func kubeadm(lock pinset.Lock) string {
	for _, img := range lock.Images {
		for _, tag := range img.Tags {
			if version, found := strings.CutPrefix(path.Base(tag), "kube-apiserver:"); found {
				return version
			}
		}
	}
	return ""
}

// microShift reports whether a source is a list of MicroShift's packages, by the name that they give it.
func microShift(s spec.Spec) bool {
	for _, e := range s.Sources {
		if lists, ok := e.Source.(*source.ImageLists); ok && slices.ContainsFunc(*lists, func(name string) bool {
			match, _ := path.Match("release-*.json", filepath.Base(name)) // the pattern is valid
			return match
		}) {
			return true
		}
	}
	return false
}
