package builder

import (
	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/openshift"
	"github.com/pinbox/pinbox/builder/runbook"
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
		ISO: p.base != nil, Installs: s.ISO.InstallDevice, Delta: delta != nil, Signed: !o.Signer.IsZero(),
		OpenShift: s.OpenShift, Sets: p.sets,
	}
	if delta != nil {
		b.Releases = releases
		if delta.Delta.Thin != nil {
			b.Made = delta.Delta.Thin.StoreSize
		}
	}
	return b
}
