package builder

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/layout"
)

// stated describes the build for its provenance statement.
func (o Options) stated(made product) provenance.Build {
	b := provenance.Build{
		Delta: made.common != nil, Version: o.Version, Parameters: o.parameters(), Files: map[string]string{},
	}
	b.Images = made.lock.Pins()
	add := func(name string, of digest.Digest) {
		if of != "" {
			b.Files[name] = of.Encoded()
		}
	}
	add(layout.OwnProgram, made.node.Digest)
	if made.live.BaseSum != "" {
		b.Files[artifact.ISOBase] = made.live.BaseSum
	}
	if made.common != nil {
		for i, base := range made.common.Delta.Bases { // named as in delta.json
			add(fmt.Sprintf("bases[%d].store", i), base.Store)
			add(fmt.Sprintf("bases[%d].lock", i), base.Lock)
		}
	}
	return b
}

// parameters are what the user asked for. They have no paths and no credentials, so that equal builds on two
// machines say the same.
func (o Options) parameters() map[string]any {
	p := map[string]any{"appliance": o.Appliance.Metadata.Name, "platform": string(o.Appliance.Spec.Platform)}
	if o.Appliance.Digest != "" {
		p["applianceFile"] = map[string]any{"sha256": o.Appliance.Digest.Encoded()}
	}
	inputs := map[string]any{}
	for flag, values := range o.Inputs {
		inputs[flag] = anys(values)
	}
	if len(inputs) > 0 {
		p["inputs"] = inputs
	}
	if !o.ModTime.IsZero() {
		p["sourceDateEpoch"] = o.ModTime.Unix()
	}
	if o.Thin {
		p["thin"] = true
	}
	if o.Access.InsecurePolicy {
		p["insecurePolicy"] = true
	}
	if hosts := o.insecure(); len(hosts) > 0 {
		p["insecureRegistries"] = anys(hosts)
	}
	if registry := o.Appliance.Spec.DefaultRegistry; registry != "" {
		p["defaultRegistry"] = registry
	}
	if names := o.Appliance.Spec.AnyArchitecture; len(names) > 0 {
		p["anyArchitecture"] = anys(names)
	}
	if o.Appliance.Spec.ISO.Existing == spec.ExistingReplace {
		p["isoExisting"] = spec.ExistingReplace
	}
	return p
}

// insecure returns the registries and mirrors whose certificates are not verified.
func (o Options) insecure() []string {
	return slices.Concat(o.Access.Insecure, o.Appliance.Spec.InsecureRegistries)
}

// weakened returns a warning for each check that the user has turned off. The provenance statement has them too.
func (o Options) weakened() (warnings []string) {
	if o.Access.InsecurePolicy {
		warnings = append(warnings, "the signature policy is ignored, and every image is accepted: --insecure-policy")
	}
	if hosts := o.insecure(); len(hosts) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s may serve plain HTTP, or have an untrusted certificate: "+
			"--insecure-registry or spec.insecureRegistries", strings.Join(hosts, ", ")))
	}
	if iso := o.Appliance.Spec.ISO; iso.Base != "" && iso.Existing == spec.ExistingReplace {
		warnings = append(warnings, "an Ignition config that the ISO has already is replaced: --force or spec.iso.existing")
	}
	return warnings
}

// anys is a list as structpb takes it.
func anys(values []string) (all []any) {
	for _, value := range values {
		all = append(all, value)
	}
	return all
}

// state writes the provenance statement, and returns the sums of its subjects: the store unless it is a folder,
// the lock, and the ISO if it is there already. An ISO has the statement without itself.
func (o Options) state(ctx context.Context, stage *artifact.Stage, made product, iso bool) (layout.Sums, error) {
	lock, err := artifact.SumFile(ctx, stage.Path(artifact.LockFile), progress.Hooks{})
	if err != nil {
		return nil, err
	}
	subjects := layout.Sums{artifact.LockFile: lock}
	if made.store.Sum != "" {
		subjects[made.store.Name] = made.store.Sum
	}
	if iso {
		if subjects[artifact.ISOFile], err = artifact.SumFile(ctx, stage.Path(artifact.ISOFile), o.Hooks); err != nil {
			return nil, err
		}
	}
	text, err := o.stated(made).Statement(subjects)
	if err != nil {
		return nil, err
	}
	return subjects, stage.Write(artifact.ProvenanceFile, text)
}
