package ignition

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/runtime/crio"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
	"github.com/pinbox/pinbox/storage/pinset"
)

// Errors of a configuration with which a node would lose its store or its pins, or would not boot.
var (
	ErrDisk = fault.New(fault.Input, "the config changes the disk of the store",
		"give the store a disk of its own, or leave the named item out; other partitions of the disk may have any number "+
			"but that of the store")
	ErrPins = fault.New(fault.Input, "the config replaces the pins",
		"CRI-O takes the list of the last file alone: name the file so that it sorts before 50-pinned-images, whose list "+
			"then has its images, too")
	ErrFetch = fault.New(fault.Input, "the config fetches what the node needs to boot, and the node is offline",
		"put it into the config: contents.local or contents.inline of Butane. Only a node that fetches its store, too, by "+
			"spec.node.store.url, has a server when it boots")
	ErrLive = fault.New(fault.Input, "the config does not fit a live system",
		"use spec.iso.mode install, or leave the named item out; spec.iso.kernelArguments changes those of the ISO")
)

// System is what a configuration must be good for.
type System struct {
	// Live is whether it boots from a medium or a network each time.
	Live bool
	// Disk is the path of the disk that has the store's partition, "" if it is on no disk that is known. Partition is
	// the label of that partition, "" if there is none.
	Disk, Partition string
	// Network is whether it has servers to fetch from when it boots.
	Network bool
	// Operator is whether the Machine Config Operator writes the pins, of the sets of the cluster alone.
	Operator bool
	// Images that CRI-O must pin.
	Images []pinset.Image
}

// Review compares a configuration, and all that it merges, with the system. Notes are for the user.
func Review(config []byte, s System) (notes []string, err error) {
	t, err := readTree(config)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrButane, err)
	}
	return t.review(s)
}

func (t tree) review(s System) (notes []string, err error) {
	if err := t.checkLive(s); err != nil {
		return nil, err
	}
	fetched, err := t.checkFetched(s)
	if err != nil {
		return nil, err
	}
	disks, err := t.checkDisks(s)
	if err != nil {
		return nil, err
	}
	pins, err := t.checkPins(s)
	return slices.Concat(fetched, disks, pins), err
}

// checkFetched names what the system fetches when it boots, besides whole configurations. Without a server that is an
// error: Ignition asks for it again and again, without an end, and the system does not boot.
func (t tree) checkFetched(s System) (notes []string, err error) {
	for _, who := range slices.Sorted(maps.Keys(t.resources)) {
		if !s.Network {
			return nil, fmt.Errorf("%w: %s, from %s", ErrFetch, who, t.resources[who])
		}
		notes = append(notes,
			fmt.Sprintf("%s is fetched from %s when the node boots, which waits for it", who, t.resources[who]))
	}
	return notes, nil
}

// checkLive returns an error if a live system could not apply the configuration: rpm-ostree has no kernel arguments
// to change there, and there is no root file system.
func (t tree) checkLive(s System) error {
	if !s.Live {
		return nil
	}
	if len(t.kargs) > 0 {
		return fmt.Errorf("%w: kernel_arguments: %s", ErrLive, strings.Join(t.kargs, " "))
	}
	for _, f := range t.filesystems {
		if f.Label != nil && *f.Label == "root" || f.Device == "/dev/disk/by-partlabel/root" {
			return fmt.Errorf("%w: the root file system on %s (boot_device, or storage.filesystems)", ErrLive, f.Device)
		}
	}
	return nil
}

// checkDisks compares what the configuration does to disks with where the store is.
func (t tree) checkDisks(s System) (notes []string, err error) {
	if s.Partition == "" {
		return nil, nil
	}
	refuse := func(item, why string) error { return fmt.Errorf("%w: %s: %s", ErrDisk, item, why) }
	for _, d := range t.disks {
		item, same := "storage.disks: "+d.Device, sameDisk(s.Disk, d.Device)
		if d.WipeTable != nil && *d.WipeTable && same != no {
			if same == yes {
				return nil, refuse(item, "wipe_table (also of boot_device.mirror) clears the table with the store's partition")
			}
			notes = append(notes,
				fmt.Sprintf("%s: wipe_table (also of boot_device.mirror): if this is %s, the store is lost at "+
					"the first boot", item, s.Disk))
		}
		for _, p := range d.Partitions {
			switch {
			case p.Label != nil && *p.Label == s.Partition && s.Disk != "":
				return nil, refuse(item, "a partition has the label "+s.Partition+" of the store")
			case p.Number == layout.PartitionNumber && same == yes:
				return nil, refuse(item, fmt.Sprintf("partition %d is the store's; give this one another number", p.Number))
			case p.Number == layout.PartitionNumber && same == maybe:
				notes = append(notes, fmt.Sprintf("%s: partition %d: if this is %s, it is the store's", item, p.Number, s.Disk))
			}
		}
	}
	devices := t.devices()
	for _, item := range slices.Sorted(maps.Keys(devices)) {
		switch device := devices[item]; {
		case sameDisk(s.Disk, device) == yes:
			return nil, refuse(item, device+" is the whole disk to which the system and the store are installed")
		case slices.Contains(s.storeDevices(), path.Clean(device)):
			return nil, refuse(item, device+" is the store's partition")
		}
	}
	return notes, nil
}

// storeDevices are the names of the store's partition.
func (s System) storeDevices() []string {
	infix := ""
	if strings.HasPrefix(s.Disk, "/dev/disk/") {
		infix = "-part"
	} else if strings.ContainsAny(s.Disk[max(len(s.Disk)-1, 0):], "0123456789") {
		infix = "p"
	}
	return []string{
		"/dev/disk/by-partlabel/" + s.Partition, fmt.Sprintf("%s%s%d", s.Disk, infix, layout.PartitionNumber),
	}
}

// devices are those that get a file system, are encrypted or become a part of another one, by who says it.
func (t tree) devices() map[string]string {
	all := map[string]string{}
	for _, f := range t.filesystems {
		all["storage.filesystems: "+f.Device] = f.Device
	}
	for _, l := range t.luks {
		if l.Device != nil {
			all["storage.luks: "+l.Name] = *l.Device
		}
	}
	for _, r := range t.raids {
		for _, d := range r.Devices {
			all["storage.raid: "+r.Name+", "+string(d)] = string(d)
		}
	}
	return all
}

// Whether two names are of one disk.
type sameness int

const (
	no sameness = iota
	maybe
	yes
)

// kernelDisk matches the names that the kernel gives: each is another disk.
var kernelDisk = regexp.MustCompile(`^/dev/(sd[a-z]+|[hv]d[a-z]+|xvd[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+|dasd[a-z]+)$`)

// bootDisk is the link to the disk that a CoreOS booted from: Butane, docs/specs.md.
const bootDisk = "/dev/disk/by-id/coreos-boot-disk"

// sameDisk compares the disk of the store with another one. Links may lead to any disk.
func sameDisk(disk, other string) sameness {
	disk, other = path.Clean(disk), path.Clean(other)
	isLink := func(name string) bool {
		return strings.HasPrefix(name, "/dev/disk/") && !strings.Contains(name, "/by-part")
	}
	switch {
	case disk == ".":
		return no
	case disk == other, other == bootDisk:
		return yes
	case isLink(disk) && (isLink(other) || kernelDisk.MatchString(other)), isLink(other) && kernelDisk.MatchString(disk):
		return maybe
	}
	return no
}

// checkPins reads the drop-ins of CRI-O, and compares what it then pins with the images.
func (t tree) checkPins(s System) (notes []string, err error) {
	files := map[string][]byte{}
	for name, content := range t.files {
		if below, ok := strings.CutPrefix(name, "/etc/crio/"); ok {
			files[below] = content
		}
	}
	config, err := crio.ReadFiles(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrPins, err)
	}
	if missing := config.Missing(s.Images); missing > 0 && config.PinnedBy != "" &&
		config.PinnedBy != crio.PinnedImagesPath {
		return nil, fmt.Errorf("%w: %s has pinned_images and comes later than %s: %d of %d images are not in it",
			ErrPins, config.PinnedBy, crio.PinnedImagesPath, missing, len(s.Images))
	}
	if len(config.Earlier) > 0 {
		what := "pinbox-node adds them there when it starts"
		if s.Operator {
			what = "put these into a PinnedImageSet"
		}
		notes = append(notes,
			fmt.Sprintf("%s has pinned_images, which %s replaces: %s: %s",
				config.EarlierBy, crio.PinnedImagesPath, what, strings.Join(config.Earlier, ", ")))
	}
	return notes, nil
}
