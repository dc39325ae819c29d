package iso

import (
	"fmt"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
)

// ErrKernelLine is returned for kernel arguments with which the system would boot without its store or its config.
var ErrKernelLine = fault.New(fault.Input, "the kernel arguments do not fit the appliance",
	"`pinbox inspect` lists those of the base; spec.iso.kernelArguments deletes, replaces and appends")

// System is what the live system of an image does for the appliance.
type System int

// The systems.
const (
	RunsFromMedium       System = iota // mode live: it uses the store on its medium
	InstallsFromMedium                 // mode install: coreos-installer and pinbox write to a disk
	InstallsBesideOthers               // mode agent: another program installs, pinbox writes the store to the disk
	StoreElsewhere                     // it gets the store from a server, a disk or a second medium
	FromNetwork                        // StoreElsewhere, and it boots from a network, without a medium
)

// CheckKernelLine judges the arguments with which a system would boot, wherever they are from. label is that of its
// medium. Who reads them: the generators coreos-live-generator and coreos-installer-generator of
// fedora-coreos-config and coreos-installer, ignition-generator and internal/providers/cmdline of Ignition.
func CheckKernelLine(line string, s System, label string) error {
	last := map[string]string{}
	installs := ""
	for arg := range strings.FieldsSeq(line) {
		key, value, found := strings.Cut(arg, "=")
		if !found {
			value = key // as the generators read it, so that it is true
		}
		last[key] = value
		if key == "coreos.inst" || strings.HasPrefix(key, "coreos.inst.") {
			installs = arg
		}
	}
	refuse := func(arg, why string) error { return fmt.Errorf("%w: %s: %s", ErrKernelLine, arg, why) }
	medium, mounted := last["coreos.liveiso"]
	rootfs, minimal := last["coreos.live.rootfs_url"]
	switch url := last["ignition.config.url"]; {
	case url != "" && url != "ignition.config.url":
		return refuse("ignition.config.url="+url, "Ignition would read that config, and not the appliance's")
	}
	switch last["ignition.firstboot"] {
	case "", "0", "no", "off":
		return refuse("ignition.firstboot is missing", "Ignition would not read the appliance's config")
	}
	if installs != "" {
		why := "it would install a system to a disk, as no mode of the appliance does"
		if s == InstallsFromMedium {
			why = "it names another installation beside that of spec.iso.installDevice"
		}
		return refuse(installs, why)
	}
	if s == FromNetwork && mounted {
		return refuse("coreos.liveiso="+medium, "a system that boots from a network has no medium")
	}
	if s == StoreElsewhere || s == FromNetwork {
		return nil
	}
	_, copied := last["coreos.liveiso.fromram"]
	switch {
	case !mounted && minimal:
		return refuse("coreos.liveiso is missing", "a minimal ISO, which boots with coreos.live.rootfs_url="+rootfs+
			", does not mount its medium, which has the store; use the full live ISO, or spec.node.store.url")
	case !mounted:
		return refuse("coreos.liveiso is missing", "the system would not mount its medium, which has the store")
	case copied:
		return refuse("coreos.liveiso.fromram", "the system would unmount its medium, which has the store")
	case !strings.EqualFold(medium, label):
		return refuse("coreos.liveiso="+medium, fmt.Sprintf("the system would not find its medium, which has the label %q",
			label))
	}
	return nil
}

// checkKernelLines judges what each boot loader passes to the kernel after an edit.
func (i *Image) checkKernelLines(k Kargs, edited string, s System) error {
	for _, a := range k.areas {
		before, err := i.lineBefore(a.Offset)
		if err != nil {
			return err
		}
		if err := CheckKernelLine(before+edited, s, i.Label); err != nil {
			return fmt.Errorf("%s: %w", a.file, err)
		}
	}
	return nil
}

// lineBefore returns what the line of a text has before an offset.
func (i *Image) lineBefore(offset int64) (string, error) {
	text := make([]byte, min(offset, maxKargs))
	if _, err := i.ReadAt(text, offset-int64(len(text))); err != nil {
		return "", err
	}
	return string(text[strings.LastIndexAny(string(text), "\n\x00")+1:]), nil
}
