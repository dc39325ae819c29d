package builder

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pinbox/pinbox/builder/artifact"
	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/progress"
	"github.com/pinbox/pinbox/builder/provenance"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/layout"
)

// describeBuild describes a build for its provenance statement. delta is nil for an appliance.
func describeBuild(o Options, p *plan, delta *base.Common) provenance.Build {
	b := provenance.Build{
		Delta: delta != nil, Version: o.Version, Parameters: parameters(o), Images: p.lock.Pins(),
		Files: map[string]string{},
	}
	add := func(name string, of digest.Digest) {
		if of != "" {
			b.Files[name] = of.Encoded()
		}
	}
	add(layout.OwnProgram, p.program.Digest)
	if delta != nil {
		for i, base := range delta.Delta.Bases { // named as in delta.json
			add(fmt.Sprintf("bases[%d].store", i), base.Store)
			add(fmt.Sprintf("bases[%d].lock", i), base.Lock)
		}
	}
	return b
}

// parameters are what the user asked for. They have no paths and no credentials, so that equal builds on two
// machines say the same.
func parameters(o Options) map[string]any {
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
	if hosts := insecure(o); len(hosts) > 0 {
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
func insecure(o Options) []string {
	return slices.Concat(o.Access.Insecure, o.Appliance.Spec.InsecureRegistries)
}

// weakened returns a warning for each check that the user has turned off. The provenance statement has them too.
func weakened(o Options) (warnings []string) {
	if o.Access.InsecurePolicy {
		warnings = append(warnings, "the signature policy is ignored, and every image is accepted: --insecure-policy")
	}
	if hosts := insecure(o); len(hosts) > 0 {
		warnings = append(warnings, fmt.Sprintf("%s may serve plain HTTP, or have an untrusted certificate: "+
			"--insecure-registry or spec.insecureRegistries", strings.Join(hosts, ", ")))
	}
	if iso := o.Appliance.Spec.ISO; iso.Base != "" && iso.Existing == spec.ExistingReplace {
		warnings = append(warnings,
			"an Ignition config that the ISO has already is replaced: --replace-config or spec.iso.existing")
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

func writeStatement(stage *artifact.Stage, statement provenance.Build, subjects layout.Sums) error {
	text, err := statement.Statement(subjects)
	if err != nil {
		return err
	}
	return stage.Write(layout.ProvenanceFile, text)
}

// writeISO makes the live ISO, which has the statement of the subjects without itself, and adds its sum to them. The
// statement gets the base as an input.
func writeISO(
	ctx context.Context, stage *artifact.Stage, store artifact.Store, live artifact.LiveISO, statement provenance.Build,
	subjects layout.Sums, hooks progress.Hooks,
) (err error) {
	hooks.Begin("hash "+filepath.Base(live.Base.Name), live.Base.Size)
	if live.BaseSum, _, err = artifact.SumReader(ctx, live.Base.Reader(), hooks); err != nil {
		return err
	}
	statement.Files[layout.MediumBase] = live.BaseSum
	text, err := statement.Statement(subjects)
	if err != nil {
		return err
	}
	if err := stage.WriteISO(ctx, store, live, text, hooks); err != nil {
		return err
	}
	subjects[artifact.ISOFile], err = artifact.SumFile(ctx, stage.Path(artifact.ISOFile), hooks)
	return err
}
