package iso

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

// placed returns a file of zeros with texts at some offsets.
func placed(texts map[int]string) []byte {
	content := make([]byte, 70_000)
	for at, text := range texts {
		copy(content[at:], text)
	}
	return content
}

// The headers are those of Debian's kernels, and of Fedora's for arm64, which come
// gzipped or packed for UEFI.
func TestArchitectureOfAKernel(t *testing.T) {
	arm64 := placed(map[int]string{0: "MZ\x40\xfa", 0x38: "ARMd\x40", 0x40: "PE\x00\x00\x64\xaa"})
	for name, test := range map[string]struct {
		kernel []byte
		want   string
	}{
		"x86": {
			placed(map[int]string{0: "MZ", 0x3c: "\x40", 0x40: "PE\x00\x00\x64\x86", 0x1fe: "\x55\xaa\xeb\x6aHdrS"}), "amd64",
		},
		"x86 without UEFI": {placed(map[int]string{0x1fe: "\x55\xaa\xeb\x6aHdrS"}), "amd64"},
		"arm64":            {arm64, "arm64"},
		"arm64, gzipped":   {gzipped(t, arm64), "arm64"},
		"arm64, packed for UEFI": {
			placed(map[int]string{0: "MZ\x00\x00zimg", 0x3c: "\x78", 0x78: "PE\x00\x00\x64\xaa"}), "arm64",
		},
		"riscv64": {
			placed(map[int]string{0: "MZ", 0x30: "RISCV", 0x3c: "\x40", 0x40: "PE\x00\x00\x64\x50"}), "riscv64",
		},
		"s390x":             {placed(map[int]string{0: "\x00\x08", 0x10008: "S390EP"}), "s390x"},
		"ppc64le":           {placed(map[int]string{0: "\x7fELF\x02\x01\x01", 16: "\x02\x00\x15\x00"}), "ppc64le"},
		"ppc64, big-endian": {placed(map[int]string{0: "\x7fELF\x02\x02\x01", 16: "\x00\x02\x00\x15"}), ""},
		"text":              {[]byte("the kernel."), ""},
		"truncated":         {[]byte("MZ"), ""},
		"broken gzip":       {[]byte("\x1f\x8b\x08"), ""},
		"PE out of bounds":  {placed(map[int]string{0: "MZ", 0x3c: "\xff\xff\xff\xff"}), ""},
		"empty":             {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := kernelArchitecture(bytes.NewReader(test.kernel)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// The kernel determines the architecture. Without one, the boot loaders do, unless they are of two
// architectures.
func TestArchitectureOfAnImage(t *testing.T) {
	s390x, text := placed(map[int]string{0x10008: "S390EP"}), []byte("no kernel")
	for name, test := range map[string]struct {
		files map[string][]byte
		want  string
	}{
		"nothing":  {nil, ""},
		"a kernel": {map[string][]byte{"images/pxeboot/vmlinuz": s390x}, "s390x"},
		"a kernel of s390x": {
			map[string][]byte{"images/pxeboot/kernel.img": s390x, "isolinux/isolinux.bin": nil}, "s390x",
		},
		"a boot loader":          {map[string][]byte{"images/pxeboot/vmlinuz": text, "generic.ins": nil}, "s390x"},
		"two loaders of one":     {map[string][]byte{"isolinux/isolinux.bin": nil, "EFI/BOOT/BOOTX64.EFI": nil}, "amd64"},
		"loaders of two":         {map[string][]byte{"EFI/BOOT/BOOTAA64.EFI": nil, "EFI/BOOT/BOOTX64.EFI": nil}, ""},
		"a loader for POWER":     {map[string][]byte{"ppc/bootinfo.txt": nil}, "ppc64le"},
		"a folder, not a kernel": {map[string][]byte{"images/pxeboot/vmlinuz/x": s390x}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			options := []string{"-rock", "-graft-points"}
			for path, content := range test.files {
				file := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(file, content, 0o644); err != nil {
					t.Fatal(err)
				}
				options = append(options, path+"="+file)
			}
			i, f, err := OpenFile(fixtures.LiveISO(t, options...))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if got := i.Architecture(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			_, err = editor{i}.edit(Edit{Architecture: "arm64"})
			if refused := test.want != "" && test.want != "arm64"; errors.Is(err, ErrArchitecture) != refused ||
				refused && !strings.Contains(err.Error(), "it boots on "+test.want+", and the store is for arm64") {
				t.Errorf("an edit for arm64: got %v, want it refused: %v", err, refused)
			}
			if _, err := (editor{i}).edit(Edit{Architecture: test.want}); err != nil {
				t.Errorf("an edit for %q: got %v, want no error", test.want, err)
			}
		})
	}
}
