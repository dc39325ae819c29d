package iso

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/iso9660"
)

// ErrArchitecture is returned for an image of another architecture than the edit.
var ErrArchitecture = fault.New(fault.Input, "the image is for another architecture",
	"name the live ISO for the platform of the appliance, or change spec.platform or --platform")

// kernels are the paths of the kernel in CoreOS live ISOs; the second on s390x until 2023: osbuild,
// stages/org.osbuild.coreos.live-artifacts.mono, and coreos-assembler, cmd-buildextend-live.
var kernels = []string{"images/pxeboot/vmlinuz", "images/pxeboot/kernel.img"}

// PXE returns the files by which the system of the image boots from a network, by their names: the kernel, its
// initial ramdisk, the root file system, and the Ignition area, which is a ramdisk, too.
func (i *Image) PXE() (map[string]io.Reader, error) {
	files := map[string]io.Reader{}
	for _, name := range append([]string{"images/pxeboot/initrd.img", "images/pxeboot/rootfs.img"}, kernels...) {
		f, err := i.Find(name)
		if errors.Is(err, iso9660.ErrNotFound) && slices.Contains(kernels, name) {
			continue // the other one
		}
		if err != nil {
			return nil, err
		}
		files[path.Base(name)] = f.Reader()
	}
	a, err := i.IgnitionArea()
	if err != nil {
		return nil, err
	}
	files[path.Base(ignitionImg)] = io.NewSectionReader(i, a.Offset, a.Length)
	return files, nil
}

// loaders are files of boot loaders for one architecture: isolinux, the loaders of the UEFI
// specification, 3.5.1.1, LPAR's of s390x, and CHRP's of POWER.
var loaders = map[string]string{
	"isolinux/isolinux.bin": "amd64", "EFI/BOOT/BOOTX64.EFI": "amd64", "EFI/BOOT/BOOTAA64.EFI": "arm64",
	"EFI/BOOT/BOOTRISCV64.EFI": "riscv64", "generic.ins": "s390x", "ppc/bootinfo.txt": "ppc64le",
}

// Architecture is the architecture of the system in the image, as in GOARCH: of its kernel, or else
// of its boot loaders. It is "" if unknown.
func (i *Image) Architecture() string {
	for _, name := range kernels {
		if f, err := i.Find(name); err == nil {
			if arch := kernelArchitecture(f.Reader()); arch != "" {
				return arch
			}
		}
	}
	found := ""
	for name, arch := range loaders {
		if _, err := i.Find(name); err != nil || arch == found {
			continue
		}
		if found != "" {
			return "" // boot loaders of several architectures
		}
		found = arch
	}
	return found
}

// checkArchitecture compares the architectures of image and edit.
func (ed editor) checkArchitecture(added string) error {
	if own := ed.Architecture(); own != "" && added != "" && own != added {
		return fmt.Errorf("%w: it boots on %s, and the store is for %s", ErrArchitecture, own, added)
	}
	return nil
}

// kernelHead is how many bytes of a kernel are needed to find its architecture.
const kernelHead = s390Magic + 6

// Offsets of magic numbers in kernel images: Documentation/arch/x86/boot.rst and
// Documentation/arch/arm64/booting.rst of its source, and EP_OFFSET of
// arch/s390/include/asm/setup.h.
const (
	x86Magic  = 0x202
	arm64Text = 0x38
	s390Magic = 0x10008
)

// machines of PE files, by Microsoft's "PE Format". Kernels that UEFI can start are PE files,
// compressed ones too.
var machines = map[uint16]string{0x8664: "amd64", 0xaa64: "arm64", 0x5064: "riscv64"}

// kernelArchitecture reads the beginning of a kernel. Some for arm64 are gzipped.
func kernelArchitecture(kernel io.Reader) string {
	head := beginning(kernel)
	if bytes.HasPrefix(head, gzipMagic) {
		z, err := gzip.NewReader(io.MultiReader(bytes.NewReader(head), kernel))
		if err != nil {
			return ""
		}
		head = beginning(z)
	}
	has := func(offset int, magic string) bool {
		return len(head) >= offset && bytes.HasPrefix(head[offset:], []byte(magic))
	}
	switch {
	case has(x86Magic, "HdrS"):
		return "amd64"
	case has(s390Magic, "S390EP"):
		return "s390x"
	case has(arm64Text, "ARM\x64"):
		return "arm64"
	case has(0, "\x7fELF\x02\x01") && has(18, "\x15\x00"): // 64 bits, little-endian, EM_PPC64
		return "ppc64le"
	case has(0, "MZ") && len(head) >= 0x40:
		at := binary.LittleEndian.Uint32(head[0x3c:])
		if at < kernelHead && has(int(at), "PE\x00\x00") && len(head) >= int(at)+6 {
			return machines[binary.LittleEndian.Uint16(head[at+4:])]
		}
	}
	return ""
}

// beginning reads up to kernelHead bytes.
func beginning(kernel io.Reader) []byte {
	head := make([]byte, kernelHead)
	n, _ := io.ReadFull(kernel, head) // a short or unreadable kernel has no known magic
	return head[:n]
}
