package iso

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// Base is a live ISO that others are made of. A build opens it once, so that all of it comes from one file.
type Base struct {
	// Name is the path that it was opened by, and Size is in bytes.
	Name string
	Size int64
	// Edited reports that it is an ISO of pinbox, of which all here is as it was before that was made.
	Edited bool

	image *Image
	file  *os.File
	back  []patch // what the edit before has changed
}

// OpenBase opens a base; of an ISO of pinbox, the one that it was made of. The caller closes it.
func OpenBase(name string) (*Base, error) {
	image, f, err := OpenFile(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // Stat gives no size of a device
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	before, err := image.pristine()
	if errors.Is(err, ErrNotEdited) {
		return &Base{Name: name, Size: size, image: image, file: f}, nil
	}
	if err == nil {
		image, err = Open(overlay{f, before.patches}, before.size)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return &Base{Name: name, Size: before.size, Edited: true, image: image, file: f, back: before.patches}, nil
}

// Close closes the file. nil is fine: a build without an ISO has no base.
func (b *Base) Close() error {
	if b == nil {
		return nil
	}
	return b.file.Close()
}

// Reader reads the whole base.
func (b *Base) Reader() io.Reader { return io.NewSectionReader(overlay{b.file, b.back}, 0, b.Size) }

// Ignition returns the Ignition config that it has; nil if it has none.
func (b *Base) Ignition() ([]byte, error) {
	config, err := b.image.Ignition()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return config, nil
}

// systemDirs are the folders of the ramdisk with configs that Ignition merges below its own, on any platform and on
// that of an ISO: internal/exec/engine.go of Ignition. The image service of OpenShift's installer puts some into the
// area.
var systemDirs = []string{"usr/lib/ignition/base.d", "usr/lib/ignition/base.platform.d/metal"}

// SystemConfigs returns the configs in its Ignition area that an edit leaves there, by their names.
func (b *Base) SystemConfigs() (map[string][]byte, error) {
	members, err := b.image.Members()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	configs := map[string][]byte{}
	for _, m := range members {
		if slices.Contains(systemDirs, path.Dir(m.Name)) && m.Mode&modeType == modeFile&modeType {
			configs[m.Name] = m.Content
		}
	}
	return configs, nil
}

// DiskNotes are those of its image.
func (b *Base) DiskNotes() ([]string, error) {
	notes, err := b.image.DiskNotes()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.Name, err)
	}
	return notes, nil
}

// Check reports whether an edit can be applied, without the content of the additions.
func (b *Base) Check(e Edit) error {
	if _, err := (editor{b.image}).edit(e); err != nil {
		return fmt.Errorf("%s: %w", b.Name, err)
	}
	return nil
}

// Apply writes an edited copy to out, which appears when it is complete.
func (b *Base) Apply(ctx context.Context, out string, e Edit) error {
	fi, err := b.file.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(out); err == nil && os.SameFile(fi, there) {
		return fmt.Errorf("%s: %w", out, ErrSameFile)
	}
	l, err := editor{b.image}.edit(e)
	if err != nil {
		return fmt.Errorf("%s: %w", b.Name, err)
	}
	perm := os.FileMode(0o644)
	if e.Private {
		perm = 0o600
	}
	l.patches = append(slices.Clone(b.back), l.patches...)
	return write(ctx, b.file, b.Size, out, perm, l, e.Written)
}

// CheckInstaller checks that the live system can install unattended. network reports whether it has keyfiles for the
// network.
func (b *Base) CheckInstaller() (network bool, err error) {
	members, err := b.image.Members()
	if err != nil {
		return false, fmt.Errorf("%s: %w", b.Name, err)
	}
	_, installer, err := b.image.features()
	if err == nil && !installer {
		err = ErrNoInstaller
	}
	if err != nil {
		return false, fmt.Errorf("%s: %w", b.Name, err)
	}
	for _, m := range members {
		network = network || strings.HasPrefix(m.Name, networkDir)
	}
	return network, nil
}

// Image is an ISO 9660 image, which may be a CoreOS live ISO.
type Image struct{ *iso9660.Image }

// Open reads the volume descriptors of an image of size bytes.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	i, err := iso9660.Open(r, size)
	return &Image{i}, err
}

// Of returns an image that is open already.
func Of(image *iso9660.Image) *Image { return &Image{image} }

// OpenFile opens the image in a file or on a device. The caller closes the file.
func OpenFile(name string) (*Image, *os.File, error) {
	i, f, err := iso9660.OpenFile(name)
	return &Image{i}, f, err
}

// ErrNoInstaller is returned for a live system that cannot install unattended.
var ErrNoInstaller = fault.New(fault.Input,
	"the image cannot install unattended: "+featuresName+" has no installer-config",
	"use a newer live ISO, or spec.iso.mode live and install by hand")

const featuresName = "coreos/features.json"

// networkDir is the folder of the Ignition area with keyfiles for the network:
// coreos-installer, src/live/embed.rs.
const networkDir = "etc/coreos-firstboot-network/"

// features are the features that the image announces to coreos-installer; nil if it has no such
// file.
func (i *Image) features() (f json.RawMessage, installer bool, err error) {
	text, err := i.ReadText(featuresName)
	if errors.Is(err, iso9660.ErrNotFound) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var known struct {
		Installer bool `json:"installer-config"`
	}
	if err := json.Unmarshal(text, &known); err != nil {
		return nil, false, fmt.Errorf("%s: %w: %w", featuresName, iso9660.ErrCorrupt, err)
	}
	return text, known.Installer, nil
}

// DiskNotes says what a machine that boots the image from a disk, such as a USB stick, would not find as it is on a CD,
// and what a program that checks the image would not accept after an edit.
func (i *Image) DiskNotes() (notes []string, err error) {
	starts, err := i.partitions()
	if err != nil {
		return nil, err
	}
	for _, start := range starts {
		d := make([]byte, 6)
		if _, err := i.ReadAt(d, start*block+iso9660.FirstDescriptor*sector); err != nil || !bytes.Equal(d,
			[]byte("\x01CD001")) {
			continue
		}
		notes = append(notes,
			fmt.Sprintf("the partition of the ISO that begins at block %d has a tree of its own, without the "+
				"store (as of xorriso -partition_offset): a node that boots from a USB disk may mount that one, and not find the "+
				"store. Use a base without it, or a CD or virtual media", start))
	}
	md5, err := i.implantedMD5()
	if md5 {
		notes = append(notes,
			"the ISO has the implanted MD5 of its base, which no longer holds: checkisomd5 and rd.live.check "+
				"would refuse it. `pinbox verify` checks it instead")
	}
	return notes, err
}

// partitions are the blocks at which partitions begin that do not begin with the image.
func (i *Image) partitions() (starts []int64, err error) {
	head := make([]byte, 2*block)
	if _, err := i.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if head[mbrSignature] != 0x55 || head[mbrSignature+1] != 0xaa {
		return nil, nil
	}
	add := func(start int64) {
		if start > 1 && start < i.Size()/block-iso9660.FirstDescriptor*sector/block {
			starts = append(starts, start)
		}
	}
	for n := range 4 {
		add(int64(binary.LittleEndian.Uint32(head[mbrPartitions+16*n+8:])))
	}
	if len(starts) > 0 || string(head[block:block+8]) != gptMagic {
		return starts, nil
	}
	at, size := int64(binary.LittleEndian.Uint64(head[block+72:]))*block,
		int64(binary.LittleEndian.Uint32(head[block+84:]))
	count := min(int64(binary.LittleEndian.Uint32(head[block+80:])), 128)
	if size < 128 || size > gptMaxEntries || at < 0 || at > i.Size()-count*size {
		return nil, nil // an edit names the damage
	}
	entries := make([]byte, count*size)
	if _, err := i.ReadAt(entries, at); err != nil {
		return nil, err
	}
	for n := range count {
		add(int64(binary.LittleEndian.Uint64(entries[n*size+32:])))
	}
	return starts, nil
}

// The part of a volume descriptor for programs, in which implantisomd5 writes: ECMA-119, 8.4.32, and libimplantisomd5.c
// of isomd5sum.
const (
	applicationUse     = 883
	applicationUseSize = 512
)

func (i *Image) implantedMD5() (bool, error) {
	use := make([]byte, applicationUseSize)
	_, err := i.ReadAt(use, iso9660.FirstDescriptor*sector+applicationUse)
	return bytes.Contains(use, []byte("ISO MD5SUM = ")), err
}
