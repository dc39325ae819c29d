package iso

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// ErrNoKargs is returned for an image without areas for kernel arguments, and ErrKargs for
// arguments that cannot be written there.
var (
	ErrNoKargs = fault.New(fault.Input, "the image has no areas for kernel arguments",
		"do not change the kernel arguments, or use a newer live ISO")
	ErrKargs = fault.New(fault.Input, "kernel arguments cannot be changed",
		"`pinbox inspect` lists the kernel arguments")
)

const kargsName = "coreos/kargs.json"

// maxKargs is the most that the kernel takes on its command line, in bytes.
const maxKargs = 2048

// The header of kernel arguments in images without kargs.json: magic, length, offset of the
// default, and up to six offsets.
const (
	legacyKargs      = 32672
	legacyKargsMagic = "coreKarg"
	legacyKargsAreas = 6
)

// Kargs are the kernel arguments of an image: the same text in the configuration of each boot
// loader.
type Kargs struct {
	Default, Current string
	areas            []kargsArea
}

type kargsArea struct {
	Area
	file     string
	pad, end byte
}

// Kargs reads the kernel arguments; all areas must agree.
func (i *Image) Kargs() (Kargs, error) {
	text, err := i.ReadText(kargsName)
	if errors.Is(err, iso9660.ErrNotFound) {
		return i.legacyKargs()
	}
	if err != nil {
		return Kargs{}, err
	}
	var info struct {
		Default string
		Size    int64
		Files   []struct {
			Path     string
			Offset   int64
			Pad, End string
		}
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return Kargs{}, fmt.Errorf("%s: %w: %w", kargsName, iso9660.ErrCorrupt, err)
	}
	k := Kargs{Default: info.Default}
	for _, a := range info.Files {
		// Images of 2021 have neither; coreos-installer uses these defaults.
		a.Pad, a.End = cmp.Or(a.Pad, "#"), cmp.Or(a.End, "\n")
		f, err := i.Find(a.Path)
		if err != nil {
			return Kargs{}, fmt.Errorf("%s: %w: %w", kargsName, iso9660.ErrCorrupt, err)
		}
		if a.Offset < 0 || info.Size <= 0 || info.Size > maxKargs || a.Offset+info.Size > f.Size ||
			len(a.Pad) != 1 || len(a.End) != 1 {
			return Kargs{}, fmt.Errorf("%s: %w: the area of %s, %d bytes from %d, is not valid",
				kargsName, iso9660.ErrCorrupt, a.Path, info.Size, a.Offset)
		}
		k.areas = append(k.areas, kargsArea{Area{f.Offset() + a.Offset, info.Size}, a.Path, a.Pad[0], a.End[0]})
	}
	return k, i.readKargs(&k)
}

// legacyKargs reads the areas from the legacy header.
func (i *Image) legacyKargs() (Kargs, error) {
	h := make([]byte, 24+8*legacyKargsAreas)
	if _, err := i.ReadAt(h, legacyKargs); err != nil || string(h[:8]) != legacyKargsMagic {
		return Kargs{}, ErrNoKargs
	}
	number := func(n int) int64 { return int64(binary.LittleEndian.Uint64(h[8*n:])) }
	length, at := number(1), Area{number(2), number(1)}
	if length <= 0 || length > maxKargs {
		return Kargs{}, fmt.Errorf("legacy header: %w: %d bytes of kernel arguments", iso9660.ErrCorrupt, length)
	}
	if err := i.checkArea(at, "legacy header"); err != nil {
		return Kargs{}, err
	}
	def := make([]byte, length)
	if _, err := i.ReadAt(def, at.Offset); err != nil {
		return Kargs{}, err
	}
	k := Kargs{Default: strings.TrimRight(string(def), "#\n\x00 ")}
	for n := 3; n < 3+legacyKargsAreas && number(n) != 0; n++ {
		a := Area{number(n), length}
		if err := i.checkArea(a, "legacy header"); err != nil {
			return Kargs{}, err
		}
		k.areas = append(k.areas, kargsArea{a, "legacy header", '#', '\n'})
	}
	return k, i.readKargs(&k)
}

func (i *Image) readKargs(k *Kargs) error {
	if len(k.areas) == 0 {
		return ErrNoKargs
	}
	for n, a := range k.areas {
		content := make([]byte, a.Length)
		if _, err := i.ReadAt(content, a.Offset); err != nil {
			return err
		}
		text, _, ok := bytes.Cut(content, []byte{a.end})
		if !ok {
			return fmt.Errorf("%s: %w: its kernel arguments have no end", a.file, iso9660.ErrCorrupt)
		}
		if n > 0 && string(text) != k.Current {
			return fmt.Errorf("%s: %w: its kernel arguments are %q, those of %s %q",
				a.file, iso9660.ErrCorrupt, text, k.areas[0].file, k.Current)
		}
		k.Current = string(text)
	}
	return nil
}

// KargsEdit changes kernel arguments: what to delete, to replace ("key=old=new")
// and to append, in this order.
type KargsEdit struct{ Append, Delete, Replace []string }

func (e KargsEdit) isZero() bool { return len(e.Append)+len(e.Delete)+len(e.Replace) == 0 }

// special are the characters that GRUB's configuration interprets and isolinux does not.
const special = "\"'\\$`;&|<>{}#"

// CheckKarg checks one argument.
func CheckKarg(arg string) error {
	isControl := func(r rune) bool { return r < ' ' || r == 0x7f }
	if arg == "" || strings.ContainsAny(arg, special) || strings.ContainsFunc(arg, isControl) {
		return fmt.Errorf("%w: %q is empty, or has one of %s", ErrKargs, arg, special)
	}
	return nil
}

// apply returns the new text.
func (e KargsEdit) apply(text string) (string, error) {
	args, err := e.change(strings.Fields(text))
	return strings.Join(args, " "), err
}

func (e KargsEdit) change(args []string) ([]string, error) {
	for _, arg := range slices.Concat(e.Append, e.Replace) {
		if err := CheckKarg(arg); err != nil {
			return nil, err
		}
	}
	find := func(arg string) (int, error) {
		if n := slices.Index(args, arg); n >= 0 {
			return n, nil
		}
		return 0, fmt.Errorf("%w: there is no %q among %q", ErrKargs, arg, strings.Join(args, " "))
	}
	for _, arg := range e.Delete {
		n, err := find(arg)
		if err != nil {
			return nil, err
		}
		args = slices.Delete(args, n, n+1)
	}
	for _, change := range e.Replace {
		parts := strings.SplitN(change, "=", 3)
		if len(parts) != 3 {
			return nil, fmt.Errorf("%w: %q does not have the form key=old=new", ErrKargs, change)
		}
		n, err := find(parts[0] + "=" + parts[1])
		if err != nil {
			return nil, err
		}
		args[n] = parts[0] + "=" + parts[2]
	}
	for _, arg := range e.Append {
		args = append(args, strings.Fields(arg)...)
	}
	return args, nil
}

// edit returns all areas with the changed text.
func (k Kargs) edit(text string) ([]patch, error) {
	var patches []patch
	for _, a := range k.areas {
		if strings.IndexByte(text, a.end) >= 0 {
			return nil, fmt.Errorf("%w: %q ends them", ErrKargs, a.end)
		}
		if over := int64(len(text)) + 1 - a.Length; over > 0 {
			return nil, fmt.Errorf("%w: they are %d bytes longer than the area of %s, which has %d",
				ErrKargs, over, a.file, a.Length)
		}
		content := append([]byte(text), a.end)
		padding := bytes.Repeat([]byte{a.pad}, int(a.Length)-len(content))
		patches = append(patches, patch{a.Offset, append(content, padding...)})
	}
	return patches, nil
}

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
