package iso9660

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"
	"unicode/utf16"

	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/input"
)

// Errors that Open, Find and ReadDir wrap.
var (
	ErrNotISO = fault.New(fault.Input, "not an ISO 9660 image",
		"name a CoreOS live ISO")
	ErrTruncated = fault.New(fault.Input, "the image is incomplete",
		"download it again, and compare its checksum")
	ErrCorrupt = fault.New(fault.Input, "the image is damaged",
		"download it again, and compare its checksum")
	ErrNotFound = fault.New(fault.Input, "not in the image",
		"`pinbox inspect` lists what was added")
)

const (
	// SectorSize is the size of a logical block, in bytes: ECMA-119, 6.2.
	SectorSize = 2048
	// FirstDescriptor is the sector of the first volume descriptor: ECMA-119, 8.
	FirstDescriptor = 16
)

// Types of volume descriptors: ECMA-119, 8.1.1.
const (
	Primary       = 1
	Supplementary = 2
	Terminator    = 255
)

// Offsets of fields in a volume descriptor, in bytes: ECMA-119, 8.4.
const (
	VolumeSizeOffset = 80
	RootRecordOffset = 156
)

// maxDescriptors is how many volume descriptors Open reads; xorriso writes four at most.
const maxDescriptors = 64

// minRecord is the size of the smallest directory record, which the root's is, in bytes.
const minRecord = 34

// Image is an ISO 9660 image.
type Image struct {
	// Label of the primary volume. Linux finds a medium by it.
	Label string

	r       io.ReaderAt
	size    int64
	primary Volume
	joliet  *Volume // nil if the image has none
}

// Volume is a tree of directories: the primary one or Joliet's.
type Volume struct {
	// Descriptor is the offset of the volume descriptor, in bytes.
	Descriptor int64
	// Sectors is the size of the volume, in sectors.
	Sectors uint32
	// Root is the record of the root directory.
	Root Record
	// Joliet is true for Joliet's volume, false for the primary one.
	Joliet bool
}

// OpenFile opens the image in a file or on a device, and reads it as Open does. The caller closes
// the file.
func OpenFile(name string) (*Image, *os.File, error) {
	f, err := input.Medium(name)
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // Stat gives no size of a device
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, ErrNotISO), f.Close())
	}
	i, err := Open(f, size)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return i, f, nil
}

// Open reads the volume descriptors of an image of size bytes. The error is ErrNotISO or
// ErrTruncated.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	i := &Image{r: r, size: size}
	for n := int64(FirstDescriptor); n < FirstDescriptor+maxDescriptors; n++ {
		d := make([]byte, SectorSize)
		if _, err := r.ReadAt(d, n*SectorSize); err != nil || string(d[1:6]) != "CD001" {
			return nil, fmt.Errorf("%w: no volume descriptor in sector %d", ErrNotISO, n)
		}
		switch d[0] {
		case Primary:
			v, err := parseVolume(d, n*SectorSize, false)
			if err != nil {
				return nil, err
			}
			i.primary, i.Label = v, strings.TrimRight(string(d[40:72]), " \x00")
		case Supplementary:
			if !isJoliet(d) {
				continue
			}
			v, err := parseVolume(d, n*SectorSize, true)
			if err != nil {
				return nil, err
			}
			i.joliet = &v
		case Terminator:
			return i, i.check()
		}
	}
	return nil, fmt.Errorf("%w: more than %d volume descriptors", ErrNotISO, maxDescriptors)
}

// isJoliet reports whether a descriptor has the escape sequence of UCS-2 level 1, 2 or 3.
func isJoliet(d []byte) bool {
	escape := string(d[88:91])
	return escape == "%/@" || escape == "%/C" || escape == "%/E"
}

func parseVolume(d []byte, at int64, joliet bool) (Volume, error) {
	if block := binary.LittleEndian.Uint16(d[128:]); block != SectorSize {
		return Volume{}, fmt.Errorf("%w: blocks of %d bytes, not %d", ErrNotISO, block, SectorSize)
	}
	root, err := parseRecord(d[RootRecordOffset:RootRecordOffset+minRecord], joliet)
	sectors := binary.LittleEndian.Uint32(d[VolumeSizeOffset:])
	return Volume{Descriptor: at, Sectors: sectors, Root: root, Joliet: joliet}, err
}

// Size returns the size of the image, in bytes.
func (i *Image) Size() int64 { return i.size }

// ReadAt reads from the image at an offset, in bytes.
func (i *Image) ReadAt(p []byte, offset int64) (int, error) { return i.r.ReadAt(p, offset) }

// Volumes returns the primary volume and Joliet's, if the image has it.
func (i *Image) Volumes() []Volume {
	if i.joliet == nil {
		return []Volume{i.primary}
	}
	return []Volume{i.primary, *i.joliet}
}

// FileVolume returns the volume in which Find looks: Joliet's, whose names are complete, or else
// the primary one.
func (i *Image) FileVolume() Volume {
	all := i.Volumes()
	return all[len(all)-1]
}

func (i *Image) check() error {
	if i.primary.Descriptor == 0 {
		return fmt.Errorf("%w: no primary volume", ErrNotISO)
	}
	if want := int64(i.primary.Sectors) * SectorSize; want > i.size {
		return fmt.Errorf("%w: the volume has %d bytes, the file %d", ErrTruncated, want, i.size)
	}
	return nil
}

// File is a file of an image.
type File struct {
	// Path that the file was found by.
	Path string
	// Size in bytes.
	Size    int64
	extents []extent
	i       *Image
}

type extent struct{ offset, size int64 }

// Find looks up a file by its path, such as "coreos/igninfo.json". A directory is ErrNotFound.
func (i *Image) Find(name string) (File, error) {
	dir := i.FileVolume().Root
	parts := strings.Split(path.Clean(name), "/")
	for n, part := range parts {
		records, err := i.ReadDir(dir)
		if err != nil {
			return File{}, err
		}
		f := File{Path: name, i: i}
		found := false
		for _, r := range records {
			if !r.HasName(part) {
				continue
			}
			found, dir = true, r
			f.extents = append(f.extents, extent{int64(r.Extent) * SectorSize, int64(r.Size)})
			f.Size += int64(r.Size)
		}
		if !found || dir.IsDir() == (n == len(parts)-1) {
			return File{}, fmt.Errorf("%s: %w", name, ErrNotFound)
		}
		if n == len(parts)-1 {
			return f, f.check()
		}
	}
	return File{}, fmt.Errorf("%s: %w", name, ErrNotFound)
}

func (f File) check() error {
	for _, e := range f.extents {
		if e.offset+e.size > f.i.size {
			return fmt.Errorf("%s: %w: it ends at byte %d, the image at %d", f.Path, ErrTruncated, e.offset+e.size, f.i.size)
		}
	}
	return nil
}

// Offset returns where the file's first extent begins in the image, in bytes.
func (f File) Offset() int64 { return f.extents[0].offset }

// Contiguous reports whether each extent of the file begins where the one before it ends.
func (f File) Contiguous() bool {
	end := f.Offset()
	for _, e := range f.extents {
		if e.offset != end {
			return false
		}
		end += e.size
	}
	return true
}

// Reader returns a reader of the file's content.
func (f File) Reader() io.Reader {
	var parts []io.Reader
	for _, e := range f.extents {
		parts = append(parts, io.NewSectionReader(f.i.r, e.offset, e.size))
	}
	return io.MultiReader(parts...)
}

// maxText is the largest file that ReadText reads, in bytes.
const maxText = 1 << 20

// ReadText reads a file of at most 1 MiB. The error is ErrCorrupt if the file is larger.
func (i *Image) ReadText(name string) ([]byte, error) {
	f, err := i.Find(name)
	if err != nil {
		return nil, err
	}
	if f.Size > maxText {
		return nil, fmt.Errorf("%s: %w: the file has %d bytes, more than %d", name, ErrCorrupt, f.Size, maxText)
	}
	return io.ReadAll(f.Reader())
}

// maxDir is the largest directory that ReadDir reads, in bytes: more than 10,000 files with names of 255
// characters. Its records take five times as much memory.
const maxDir = 4 << 20

// ReadDir reads the records of a directory. The first two are those of the directory itself and of
// its parent. The error is ErrCorrupt if a record points outside of the image.
func (i *Image) ReadDir(dir Record) ([]Record, error) {
	if int64(dir.Extent)*SectorSize+int64(dir.Size) > i.size || dir.Size > maxDir {
		return nil, fmt.Errorf("%w: %d bytes of directory in sector %d", ErrCorrupt, dir.Size, dir.Extent)
	}
	content := make([]byte, dir.Size)
	if _, err := i.r.ReadAt(content, int64(dir.Extent)*SectorSize); err != nil {
		return nil, fmt.Errorf("directory in sector %d: %w", dir.Extent, err)
	}
	var records []Record
	for at := 0; at < len(content); {
		if content[at] == 0 { // padding: a record does not cross the end of a sector
			at = (at/SectorSize + 1) * SectorSize
			continue
		}
		end := at + int(content[at])
		if end > len(content) {
			return nil, fmt.Errorf("%w: a record crosses the end of its directory", ErrCorrupt)
		}
		r, err := parseRecord(content[at:end], dir.joliet)
		if err != nil {
			return nil, err
		}
		records, at = append(records, r), end
	}
	return records, nil
}

// Record is a directory record: ECMA-119, 9.1.
type Record struct {
	// Raw has all bytes of the record.
	Raw []byte
	// Extent is the first sector of the content, Size its length in bytes.
	Extent, Size uint32
	// Flags such as FlagDirectory.
	Flags byte
	// Name as the record has it; see DisplayName.
	Name string

	joliet bool
}

// Flags of a record: ECMA-119, 9.1.6.
const (
	FlagDirectory   = 0x02
	FlagMultiExtent = 0x80 // the next record has more of the file
)

func parseRecord(raw []byte, joliet bool) (Record, error) {
	if len(raw) < minRecord || 33+int(raw[32]) > len(raw) {
		return Record{}, fmt.Errorf("%w: a directory record is too short", ErrCorrupt)
	}
	return Record{
		Raw: bytes.Clone(raw), Extent: binary.LittleEndian.Uint32(raw[2:]), Size: binary.LittleEndian.Uint32(raw[10:]),
		Flags: raw[25], Name: string(raw[33 : 33+int(raw[32])]), joliet: joliet,
	}, nil
}

// IsDir reports whether the record describes a directory.
func (r Record) IsDir() bool { return r.Flags&FlagDirectory != 0 }

// HasName reports whether name is the record's name in Joliet, in Rock Ridge, or, if the image has
// neither, in the primary volume. Those names are upper-case, with a version, and may be shortened.
func (r Record) HasName(name string) bool {
	if r.joliet {
		return strings.TrimSuffix(decodeUCS2(r.Name), ";1") == name
	}
	if full, ok := r.rockRidgeName(); ok {
		return full == name
	}
	own, _, _ := strings.Cut(r.Name, ";")
	own = strings.TrimSuffix(own, ".")
	return strings.EqualFold(own, name) || strings.EqualFold(own, shorten(name)) // levels 1 and 2
}

// DisplayName returns the record's name in Joliet, in Rock Ridge, or, if the image has neither, in
// the primary volume, in lower case and without its version.
func (r Record) DisplayName() string {
	if r.joliet {
		return strings.TrimSuffix(decodeUCS2(r.Name), ";1")
	}
	if full, ok := r.rockRidgeName(); ok {
		return full
	}
	own, _, _ := strings.Cut(r.Name, ";")
	return strings.ToLower(strings.TrimSuffix(own, "."))
}

// shorten returns the name that a file of this name has at level 1: 8 letters and 3.
func shorten(name string) string {
	base, ext, dotted := strings.Cut(name, ".")
	base = base[:min(8, len(base))]
	if !dotted {
		return base
	}
	return base + "." + ext[:min(3, len(ext))]
}

// SystemUse returns the record's system use area, which comes after the name: SUSP (IEEE P1281).
func (r Record) SystemUse() []byte {
	at := 33 + len(r.Name)
	return r.Raw[min(at+at%2, len(r.Raw)):]
}

// rockRidgeName joins the NM entries of the system use area: IEEE P1282, 4.1.4.
func (r Record) rockRidgeName() (name string, ok bool) {
	for area := r.SystemUse(); len(area) >= 4 && area[2] >= 4 && int(area[2]) <= len(area); area = area[area[2]:] {
		if string(area[:2]) == "NM" && area[2] >= 5 {
			name, ok = name+string(area[5:area[2]]), true
		}
	}
	return name, ok
}

func decodeUCS2(s string) string {
	var units []uint16
	for i := 0; i+1 < len(s); i += 2 {
		units = append(units, binary.BigEndian.Uint16([]byte(s[i:])))
	}
	return string(utf16.Decode(units))
}
