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
)

// What can be wrong with an ISO.
var (
	ErrNotISO    = errors.New("not an ISO 9660 image")
	ErrTruncated = errors.New("the image is incomplete")
	ErrCorrupt   = errors.New("the image is damaged")
	ErrNotFound  = errors.New("not in the image")
)

// SectorSize is the size of a logical block, in bytes. The volume descriptors begin in the
// sector FirstDescriptor (ECMA-119, 6.2 and 8).
const (
	SectorSize      = 2048
	FirstDescriptor = 16
)

// Types of volume descriptors: ECMA-119, 8.1.1.
const (
	Primary       = 1
	Supplementary = 2
	Terminator    = 255
)

// Offsets of fields in a volume descriptor, in bytes: ECMA-119, 8.4. The record of the
// root directory has 34 bytes.
const (
	VolumeSizeOffset = 80
	RootRecordOffset = 156
)

// Image is an ISO 9660 image.
type Image struct {
	// Label of the volume, by which a live system finds its medium.
	Label string

	r       io.ReaderAt
	size    int64
	primary Volume
	joliet  *Volume // nil if there is none
}

// Volume is a tree of directories: the primary one or Joliet's.
type Volume struct {
	// Descriptor is the offset of the volume descriptor, in bytes.
	Descriptor int64
	// Sectors of the volume.
	Sectors uint32
	Root    Record
	Joliet  bool
}

// OpenFile opens the image in a file or on a device. The caller closes the file.
func OpenFile(name string) (*Image, *os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	size, err := f.Seek(0, io.SeekEnd) // a device has a size, too
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, ErrNotISO), f.Close())
	}
	i, err := Open(f, size)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return i, f, nil
}

// Open reads the volume descriptors of an image of size bytes.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	i := &Image{r: r, size: size}
	for n := int64(FirstDescriptor); ; n++ {
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
}

// isJoliet looks for the escape sequences of UCS-2 levels 1 to 3.
func isJoliet(d []byte) bool {
	escape := string(d[88:91])
	return escape == "%/@" || escape == "%/C" || escape == "%/E"
}

func parseVolume(d []byte, at int64, joliet bool) (Volume, error) {
	if block := binary.LittleEndian.Uint16(d[128:]); block != SectorSize {
		return Volume{}, fmt.Errorf("%w: its blocks have %d bytes, not %d", ErrNotISO, block, SectorSize)
	}
	root, err := parseRecord(d[RootRecordOffset:RootRecordOffset+34], joliet)
	return Volume{Descriptor: at, Sectors: binary.LittleEndian.Uint32(d[VolumeSizeOffset:]), Root: root, Joliet: joliet}, err
}

// Size of the image in bytes.
func (i *Image) Size() int64 { return i.size }

// ReadAt reads the bytes of the image.
func (i *Image) ReadAt(p []byte, offset int64) (int, error) { return i.r.ReadAt(p, offset) }

// Volumes are the primary volume and, if there is one, Joliet's.
func (i *Image) Volumes() []Volume {
	if i.joliet == nil {
		return []Volume{i.primary}
	}
	return []Volume{i.primary, *i.joliet}
}

// FileVolume is the volume that files are looked up in: Joliet's, if there is one, since its
// names are complete.
func (i *Image) FileVolume() Volume {
	all := i.Volumes()
	return all[len(all)-1]
}

func (i *Image) check() error {
	if i.primary.Descriptor == 0 {
		return fmt.Errorf("%w: no primary volume", ErrNotISO)
	}
	if want := int64(i.primary.Sectors) * SectorSize; want > i.size {
		return fmt.Errorf("%w: its volume has %d bytes, the file %d", ErrTruncated, want, i.size)
	}
	return nil
}

// File is a file of an image. Large ones have several extents.
type File struct {
	Path    string
	Size    int64
	extents []extent
	i       *Image
}

type extent struct{ offset, size int64 }

// Find looks a file up by its path: "coreos/igninfo.json".
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
			return fmt.Errorf("%s: %w: it ends at %d, the image at %d", f.Path, ErrTruncated, e.offset+e.size, f.i.size)
		}
	}
	return nil
}

// Offset is where the file begins in the image. It is in one piece up to there
// where the first extent ends.
func (f File) Offset() int64 { return f.extents[0].offset }

// Contiguous says whether all extents of the file follow each other.
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

// Reader reads the file.
func (f File) Reader() io.Reader {
	var parts []io.Reader
	for _, e := range f.extents {
		parts = append(parts, io.NewSectionReader(f.i.r, e.offset, e.size))
	}
	return io.MultiReader(parts...)
}

// maxText bounds what is read of a file that should be small, in bytes.
const maxText = 1 << 20

// ReadText reads a small file.
func (i *Image) ReadText(name string) ([]byte, error) {
	f, err := i.Find(name)
	if err != nil {
		return nil, err
	}
	if f.Size > maxText {
		return nil, fmt.Errorf("%s: %w: it has %d bytes", name, ErrCorrupt, f.Size)
	}
	return io.ReadAll(f.Reader())
}

// ReadDir reads the records of a directory; the first two are its own and its parent's.
func (i *Image) ReadDir(dir Record) ([]Record, error) {
	if int64(dir.Extent)*SectorSize+int64(dir.Size) > i.size || dir.Size > 64<<20 {
		return nil, fmt.Errorf("%w: a directory lies outside of it", ErrCorrupt)
	}
	content := make([]byte, dir.Size)
	if _, err := i.r.ReadAt(content, int64(dir.Extent)*SectorSize); err != nil {
		return nil, fmt.Errorf("directory in sector %d: %w", dir.Extent, err)
	}
	var records []Record
	for at := 0; at < len(content); {
		if content[at] == 0 { // the rest of a sector that no record fits in
			at = (at/SectorSize + 1) * SectorSize
			continue
		}
		end := at + int(content[at])
		if end > len(content) {
			return nil, fmt.Errorf("%w: a record runs out of its directory", ErrCorrupt)
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
	// Raw is the whole record.
	Raw []byte
	// Extent is the first sector of the content, Size its length in bytes.
	Extent, Size uint32
	Flags        byte
	// Name as it is in the record; Display is the one for people.
	Name string

	joliet bool
}

// Flags of a record.
const (
	FlagDirectory   = 0x02
	FlagMultiExtent = 0x80 // the file continues in the next record
)

func parseRecord(raw []byte, joliet bool) (Record, error) {
	if len(raw) < 34 || 33+int(raw[32]) > len(raw) {
		return Record{}, fmt.Errorf("%w: a directory record is too short", ErrCorrupt)
	}
	return Record{
		Raw: bytes.Clone(raw), Extent: binary.LittleEndian.Uint32(raw[2:]), Size: binary.LittleEndian.Uint32(raw[10:]),
		Flags: raw[25], Name: string(raw[33 : 33+int(raw[32])]), joliet: joliet,
	}, nil
}

// IsDir says whether the record is that of a directory.
func (r Record) IsDir() bool { return r.Flags&FlagDirectory != 0 }

// HasName says whether a record has the name that users know. Without Joliet that
// is of Rock Ridge, or the primary volume's own: upper-case, with a version.
func (r Record) HasName(name string) bool {
	if r.joliet {
		return strings.TrimSuffix(decodeUCS2(r.Name), ";1") == name
	}
	if whole, ok := r.rockRidgeName(); ok {
		return whole == name
	}
	own, _, _ := strings.Cut(r.Name, ";")
	own = strings.TrimSuffix(own, ".")
	return strings.EqualFold(own, name) || strings.EqualFold(own, shorten(name)) // levels 1 and 2
}

// DisplayName is the name of a record that users know.
func (r Record) DisplayName() string {
	if r.joliet {
		return strings.TrimSuffix(decodeUCS2(r.Name), ";1")
	}
	if whole, ok := r.rockRidgeName(); ok {
		return whole
	}
	own, _, _ := strings.Cut(r.Name, ";")
	return strings.ToLower(strings.TrimSuffix(own, "."))
}

// shorten is the name that ISO 9660 level 1 makes of one: 8.3.
func shorten(name string) string {
	base, ext, dotted := strings.Cut(name, ".")
	base = base[:min(8, len(base))]
	if !dotted {
		return base
	}
	return base + "." + ext[:min(3, len(ext))]
}

// SystemUse is what comes after the name: SUSP.
func (r Record) SystemUse() []byte {
	at := 33 + len(r.Name)
	return r.Raw[min(at+at%2, len(r.Raw)):]
}

// rockRidgeName joins the NM entries: IEEE P1282, 4.1.4.
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
