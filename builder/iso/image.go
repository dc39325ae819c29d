// Package iso reads and edits CoreOS live ISOs, in place: every byte of the base
// keeps its place, except the few that say what has changed.
package iso

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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

// sector is the size of a logical block of ISO 9660, in bytes. The volume
// descriptors begin with the sixteenth (ECMA-119, 6.2 and 8).
const (
	sector      = 2048
	descriptors = 16
)

// Types of volume descriptors: ECMA-119, 8.1.1.
const (
	bootDescriptor          = 0
	primaryDescriptor       = 1
	supplementaryDescriptor = 2
	terminator              = 255
)

// Image is an ISO 9660 image.
type Image struct {
	// Label of the volume, by which a live system finds its medium.
	Label string

	r       io.ReaderAt
	size    int64
	primary volume
	joliet  *volume // nil if there is none
}

// volume is a tree of directories: the primary one or Joliet's.
type volume struct {
	descriptor int64 // offset
	sectors    uint32
	root       record
	joliet     bool
}

// Open reads the volume descriptors of an image of size bytes.
func Open(r io.ReaderAt, size int64) (*Image, error) {
	i := &Image{r: r, size: size}
	for n := int64(descriptors); ; n++ {
		d := make([]byte, sector)
		if _, err := r.ReadAt(d, n*sector); err != nil || string(d[1:6]) != "CD001" {
			return nil, fmt.Errorf("%w: no volume descriptor in sector %d", ErrNotISO, n)
		}
		switch d[0] {
		case primaryDescriptor:
			v, err := parseVolume(d, n*sector, false)
			if err != nil {
				return nil, err
			}
			i.primary, i.Label = v, strings.TrimRight(string(d[40:72]), " \x00")
		case supplementaryDescriptor:
			if !isJoliet(d) {
				continue
			}
			v, err := parseVolume(d, n*sector, true)
			if err != nil {
				return nil, err
			}
			i.joliet = &v
		case terminator:
			return i, i.check()
		}
	}
}

// isJoliet looks for the escape sequences of UCS-2 levels 1 to 3.
func isJoliet(d []byte) bool {
	escape := string(d[88:91])
	return escape == "%/@" || escape == "%/C" || escape == "%/E"
}

func parseVolume(d []byte, at int64, joliet bool) (volume, error) {
	if block := binary.LittleEndian.Uint16(d[128:]); block != sector {
		return volume{}, fmt.Errorf("%w: its blocks have %d bytes, not %d", ErrNotISO, block, sector)
	}
	root, err := parseRecord(d[156:190], at+156)
	return volume{descriptor: at, sectors: binary.LittleEndian.Uint32(d[80:]), root: root, joliet: joliet}, err
}

func (i *Image) check() error {
	if i.primary.descriptor == 0 {
		return fmt.Errorf("%w: no primary volume", ErrNotISO)
	}
	if want := int64(i.primary.sectors) * sector; want > i.size {
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
	v := i.primary
	if i.joliet != nil {
		v = *i.joliet // its names are whole
	}
	dir := v.root
	parts := strings.Split(path.Clean(name), "/")
	for n, part := range parts {
		records, err := i.list(dir, v.joliet)
		if err != nil {
			return File{}, err
		}
		f := File{Path: name, i: i}
		found := false
		for _, r := range records {
			if !r.named(part, v.joliet) {
				continue
			}
			found, dir = true, r
			f.extents = append(f.extents, extent{int64(r.extent) * sector, int64(r.size)})
			f.Size += int64(r.size)
		}
		if !found || dir.isDir() == (n == len(parts)-1) {
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

// InOnePiece says whether all extents of the file follow each other.
func (f File) InOnePiece() bool {
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

// Text reads a small file.
func (i *Image) Text(name string) ([]byte, error) {
	f, err := i.Find(name)
	if err != nil {
		return nil, err
	}
	if f.Size > maxText {
		return nil, fmt.Errorf("%s: %w: it has %d bytes", name, ErrCorrupt, f.Size)
	}
	return io.ReadAll(f.Reader())
}

// list reads the records of a directory.
func (i *Image) list(dir record, joliet bool) ([]record, error) {
	if int64(dir.extent)*sector+int64(dir.size) > i.size || dir.size > 64<<20 {
		return nil, fmt.Errorf("%w: a directory lies outside of it", ErrCorrupt)
	}
	content := make([]byte, dir.size)
	if _, err := i.r.ReadAt(content, int64(dir.extent)*sector); err != nil {
		return nil, fmt.Errorf("directory in sector %d: %w", dir.extent, err)
	}
	var records []record
	for at := 0; at < len(content); {
		if content[at] == 0 { // the rest of a sector that no record fits in
			at = (at/sector + 1) * sector
			continue
		}
		end := at + int(content[at])
		if end > len(content) {
			return nil, fmt.Errorf("%w: a record runs out of its directory", ErrCorrupt)
		}
		r, err := parseRecord(content[at:end], int64(dir.extent)*sector+int64(at))
		if err != nil {
			return nil, err
		}
		records, at = append(records, r), end
	}
	return records, nil
}

// record is a directory record: ECMA-119, 9.1.
type record struct {
	at     int64 // offset in the image
	raw    []byte
	extent uint32
	size   uint32
	flags  byte
	name   string // as it stands there
}

// Flags of a record.
const (
	flagDirectory = 0x02
	flagMore      = 0x80 // another record goes on with the file
)

func parseRecord(raw []byte, at int64) (record, error) {
	if len(raw) < 34 || 33+int(raw[32]) > len(raw) {
		return record{}, fmt.Errorf("%w: a directory record is too short", ErrCorrupt)
	}
	return record{
		at: at, raw: bytes.Clone(raw), extent: binary.LittleEndian.Uint32(raw[2:]), size: binary.LittleEndian.Uint32(raw[10:]),
		flags: raw[25], name: string(raw[33 : 33+int(raw[32])]),
	}, nil
}

func (r record) isDir() bool { return r.flags&flagDirectory != 0 }

// named says whether a record has the name that users know. Without Joliet that
// is of Rock Ridge, or the primary volume's own: upper-case, with a version.
func (r record) named(name string, joliet bool) bool {
	if joliet {
		return strings.TrimSuffix(decodeUCS2(r.name), ";1") == name
	}
	if whole, ok := r.rockRidgeName(); ok {
		return whole == name
	}
	own, _, _ := strings.Cut(r.name, ";")
	own = strings.TrimSuffix(own, ".")
	return strings.EqualFold(own, name) || strings.EqualFold(own, shorten(name)) // levels 1 and 2
}

// display is the name of a record that users know.
func (r record) display(joliet bool) string {
	if joliet {
		return strings.TrimSuffix(decodeUCS2(r.name), ";1")
	}
	if whole, ok := r.rockRidgeName(); ok {
		return whole
	}
	own, _, _ := strings.Cut(r.name, ";")
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

// systemUse is what comes after the name: SUSP.
func (r record) systemUse() []byte {
	at := 33 + len(r.name)
	return r.raw[min(at+at%2, len(r.raw)):]
}

// rockRidgeName joins the NM entries: IEEE P1282, 4.1.4.
func (r record) rockRidgeName() (name string, ok bool) {
	for area := r.systemUse(); len(area) >= 4 && area[2] >= 4 && int(area[2]) <= len(area); area = area[area[2]:] {
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
