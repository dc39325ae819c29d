package builder

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pinbox/pinbox/builder/base"
	"github.com/pinbox/pinbox/builder/firstboot"
	"github.com/pinbox/pinbox/builder/iso"
	"github.com/pinbox/pinbox/builder/source"
	"github.com/pinbox/pinbox/builder/spec"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Check checks an appliance and the files that it names, and contacts no registry. It reports all errors at once, and
// returns warnings.
func Check(ctx context.Context, o Options) (warnings []string, err error) {
	invalid := o.Appliance.Validate()
	errs := []error{invalid, checkNumber(o.Appliance)}
	material, err := source.Read(ctx, o.Appliance.Spec.Sources, sourceOptions(o))
	if err == nil {
		defer func() { err = errors.Join(err, material.Close()) }()
	}
	registries, mirrorWarnings, unreadable := readMirrors(ctx, o.Appliance.Spec.Mirrors)
	errs = append(errs, err, source.InField("spec.mirrors", unreadable))
	warnings = slices.Concat(material.Warnings, mirrorWarnings)
	if refused := material.SurelyRefused(); err == nil && len(refused) > 0 {
		err := fmt.Errorf("%w: %s", source.ErrPossible, source.DescribePossible(refused))
		errs = append(errs, source.InField("spec.sources", err))
	}
	if len(o.From) > 0 {
		_, err := base.Read(o.From, o.Appliance.Spec.Platform)
		errs = append(errs, err)
	}
	if o.Appliance.Spec.Node.Binary != "" && o.Appliance.Spec.Platform.Validate() == nil {
		program, err := openNodeBinary(o)
		if err == nil {
			err = program.Close()
		}
		errs = append(errs, source.InField("spec.node.binary", err))
	}
	config, err := configure(o.Appliance, invalid == nil, material, registries)
	return append(warnings, config.Warnings()...), errors.Join(append(errs, err)...)
}

// configure renders the first-boot configuration. If that fails, or if the appliance is not valid, it renders it with
// each file alone, so that one error does not hide another.
func configure(a spec.Appliance, valid bool, material source.Content, registries []byte) (
	config firstboot.Files, err error,
) {
	var base *iso.Base
	var opened error
	if a.Spec.ISO.Base != "" {
		base, opened = iso.OpenBase(a.Spec.ISO.Base)
		defer func() { err = errors.Join(err, base.Close()) }()
	}
	if opened == nil && valid {
		if config, err = firstboot.Configure(a, base, material, registries, pinset.Program{}); err == nil {
			return config, nil
		}
	}
	errs := []error{source.InField("spec.iso", opened)}
	try := func(field string, base *iso.Base, fill func(*spec.Spec)) {
		alone := a
		if !valid { // only the files are checked
			alone = spec.New(a.Spec.Sources...)
		}
		alone.Spec.Ignition.Butane, alone.Spec.Node.PullSecret, alone.Spec.ISO = nil, "", spec.ISO{}
		fill(&alone.Spec)
		_, err := firstboot.Configure(alone, base, source.Content{Sets: material.Sets}, registries, pinset.Program{})
		errs = append(errs, source.InField(field, err))
	}
	for _, name := range a.Spec.Ignition.Butane {
		try("spec.ignition.butane", nil, func(s *spec.Spec) { s.Ignition.Butane = []string{name} })
	}
	try("spec.node.pullSecret", nil, func(s *spec.Spec) { s.Node.PullSecret = a.Spec.Node.PullSecret })
	if opened == nil && valid {
		try("spec.iso", base, func(s *spec.Spec) { s.ISO = a.Spec.ISO })
	}
	if alone := errors.Join(errs...); alone != nil || !valid {
		return firstboot.Files{}, alone
	}
	return config, err
}
