package iso9660

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pinbox/pinbox/fixtures"
)

func open(t *testing.T, content []byte) *Image {
	t.Helper()
	i, err := Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// Find returns the same file from the primary volume as from Joliet's.
func TestFindInEachVolume(t *testing.T) {
	i := open(t, fixtures.LiveHeader(t, "embed-areas-2023-07.x86_64"))
	want, err := i.Find("EFI/fedora/grub.cfg")
	if err != nil {
		t.Fatal(err)
	}
	i.joliet = nil
	got, err := i.Find("EFI/fedora/grub.cfg")
	if err != nil || got.Offset() != want.Offset() || got.Size != want.Size {
		t.Errorf("primary volume: got %+v, %v, want %+v", got, err, want)
	}
	for _, name := range []string{"coreos", "coreos/no-such", "no-such/igninfo.json", "coreos/igninfo.json/x", ""} {
		if _, err := i.Find(name); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: got %v, want %v", name, err, ErrNotFound)
		}
	}
}

// Files are found and listed by their original names, whichever names xorriso has written.
func TestNames(t *testing.T) {
	for _, kind := range slices.Sorted(maps.Keys(fixtures.LiveISOs)) {
		t.Run(kind, func(t *testing.T) {
			i, f, err := OpenFile(fixtures.LiveISO(t, fixtures.LiveISOs[kind]...))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			rootfs, err := i.Find("images/pxeboot/rootfs.img")
			if err != nil || !rootfs.Contiguous() {
				t.Fatalf("got %+v, %v; want a file in one piece", rootfs, err)
			}
			want := strings.Repeat("rootfs", 50_000)
			if got, err := io.ReadAll(rootfs.Reader()); err != nil || string(got) != want {
				t.Errorf("got %d bytes, %v; want %d", len(got), err, len(want))
			}
			at := make([]byte, 6)
			if _, err := i.ReadAt(at, rootfs.Offset()); err != nil || string(at) != "rootfs" {
				t.Errorf("got %q at the offset of the file, %v; want %q", at, err, "rootfs")
			}
			if text, err := i.ReadText("coreos/igninfo.json"); err != nil || string(text) != `{"file":"images/ignition.img"}` {
				t.Errorf("got %q, %v, want the JSON of igninfo.json", text, err)
			}
			records, err := i.ReadDir(i.FileVolume().Root)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, r := range records[2:] {
				names = append(names, strings.ToLower(r.DisplayName()))
			}
			for _, want := range []string{"coreos", "efi", "images", "isolinux"} {
				if !slices.Contains(names, want) {
					t.Errorf("got %q in the root directory, want %q among them", names, want)
				}
			}
		})
	}
}

// An image that ends early, or whose records point outside of it, is refused.
func TestDamagedImages(t *testing.T) {
	base := fixtures.LiveHeader(t, "embed-areas-2023-07.x86_64")
	patched := func(at int64, content ...byte) []byte {
		b := bytes.Clone(base)
		copy(b[at:], content)
		return b
	}
	root := open(t, base).FileVolume()
	for _, test := range []struct {
		name    string
		content []byte
		want    error
	}{
		{"empty", nil, ErrNotISO},
		{"truncated", base[:700_000], ErrTruncated},
		{"truncated in its descriptors", base[:17*SectorSize+100], ErrNotISO},
		{"other blocks", patched(FirstDescriptor*SectorSize+128, 0, 4), ErrNotISO},
		{"no primary volume", patched(FirstDescriptor*SectorSize, Terminator), ErrNotISO},
		{"a huge directory", patched(root.Descriptor+RootRecordOffset+10, 255, 255, 255, 255), ErrCorrupt},
		{"a directory outside", patched(root.Descriptor+RootRecordOffset+2, 255, 255, 255, 255), ErrCorrupt},
		{"a record over the end", patched(root.Descriptor+RootRecordOffset+10, 40, 0, 0, 0), ErrCorrupt},
		{"a short record", patched(int64(root.Root.Extent)*SectorSize, 1), ErrCorrupt},
	} {
		t.Run(test.name, func(t *testing.T) {
			i, err := Open(bytes.NewReader(test.content), int64(len(test.content)))
			if err == nil {
				_, err = i.Find("coreos/igninfo.json")
			}
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
		})
	}
}
