package iso

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/pinbox/pinbox/storage/iso9660"
	storagelayout "github.com/pinbox/pinbox/storage/layout"
)

// sector is the size of a logical block, in bytes.
const sector = iso9660.SectorSize

// Dir is the folder in the root of the image with the files that pinbox adds.
const Dir = storagelayout.MediumDir

// Addition is a file to add to Dir. Its name has lower-case letters, digits and at most one dot, so
// that it is valid in every tree.
type Addition struct {
	Name    string
	Size    int64
	Content io.Reader
}

// maxExtent is the most bytes, in whole sectors, that one record can describe: its size has 32
// bits. Larger files have several records (ECMA-119, 9.1.6, interchange level 3).
const maxExtent = 0xFFFFF800

// grain is the multiple that sizes of hybrid images are rounded up to, in bytes: firmware expects
// whole cylinders or megabytes.
const grain = 1 << 20

// shareable is the alignment of files, in sectors: on btrfs and XFS the image can share blocks of
// 4096 bytes with a file, without a copy.
const shareable = 4096 / sector

// layout is the changes to the base, and the new data after its end.
type layout struct {
	patches []patch // within the base
	chunks  []chunk // behind it
	size    int64   // of the image
}

type chunk struct {
	offset  int64
	size    int64
	content io.Reader
}

// plan lays out additions, and a file of the base that moves. Directories that grow are moved to the end, since
// their last sector rarely has room.
func (ed editor) plan(additions []Addition, moved movedFile) (layout, error) {
	var l layout
	next := sectors(ed.Size())
	var trees []*tree
	for _, v := range ed.Volumes() {
		t := &tree{Volume: v}
		trees = append(trees, t)
		if err := t.read(ed.Image); err != nil {
			return layout{}, err
		}
		next = t.allocate(next, additions)
	}
	starts := make([]int64, len(additions))
	for n, a := range additions {
		next = (next + shareable - 1) / shareable * shareable
		starts[n] = next
		l.chunks = append(l.chunks, chunk{next * sector, a.Size, a.Content})
		next += sectors(a.Size)
	}
	if moved.name != "" {
		var err error
		if l.patches, err = ed.move(moved, next); err != nil {
			return layout{}, err
		}
		l.chunks = append(l.chunks, sectorChunk(next, moved.content))
		next += sectors(int64(len(moved.content)))
	}
	if next > 1<<32-1 {
		return layout{}, fmt.Errorf("%w: the image would have %d sectors, more than ISO 9660 can address", ErrTooLarge, next)
	}
	for _, t := range trees {
		patches, chunks := t.write(next, additions, starts)
		l.patches, l.chunks = append(l.patches, patches...), append(l.chunks, chunks...)
	}
	l.size = next * sector
	return l, nil
}

func sectors(bytes int64) int64 { return (bytes + sector - 1) / sector }

// tree is a tree of directories to be changed: its root and path tables move, Dir is new.
type tree struct {
	iso9660.Volume
	i         *Image
	records   []iso9660.Record
	rockRidge bool
	descr     []byte // the volume descriptor
	// sectors of the new root, of Dir, and of the path tables.
	rootAt, dirAt, tablesAt int64
	rootSize, dirSize       int64
}

func (t *tree) read(i *Image) (err error) {
	t.i = i
	t.descr = make([]byte, sector)
	if _, err := i.ReadAt(t.descr, t.Descriptor); err != nil {
		return err
	}
	if t.records, err = i.ReadDir(t.Root); err != nil {
		return err
	}
	if len(t.records) < 2 {
		return fmt.Errorf("%w: its root directory is empty", iso9660.ErrCorrupt)
	}
	for _, r := range t.records {
		if r.HasName(Dir) {
			return fmt.Errorf("%w: it has a folder %s", ErrEdited, Dir)
		}
	}
	// SUSP: an SP entry is the first of the first record of the root.
	t.rockRidge = !t.Joliet && bytes.HasPrefix(t.records[0].SystemUse(), []byte("SP"))
	return nil
}

// allocate assigns sectors from next on to the directories and tables, and returns the first free
// one. Sizes do not depend on positions.
func (t *tree) allocate(next int64, additions []Addition) int64 {
	starts := make([]int64, len(additions))
	t.rootAt, t.dirAt = next, next
	t.rootSize, t.dirSize = int64(len(t.rootContent())), int64(len(t.dirContent(additions, starts)))
	t.dirAt = t.rootAt + sectors(t.rootSize)
	t.tablesAt = t.dirAt + sectors(t.dirSize)
	return t.tablesAt + 2*sectors(int64(len(t.pathTable(binary.LittleEndian))))
}

// write returns the changes in the base, and the new data.
func (t *tree) write(total int64, additions []Addition, starts []int64) ([]patch, []chunk) {
	patches := []patch{{t.Descriptor + iso9660.VolumeSizeOffset, both32(uint32(total))}}
	at := t.Descriptor + iso9660.RootRecordOffset
	patches = append(patches, patch{at + 2, both32(uint32(t.rootAt))}, patch{at + 10, both32(uint32(t.rootSize))})
	for _, r := range t.records[2:] {
		if r.IsDir() { // its ".." is the root, which moved
			up := int64(r.Extent)*sector + int64(t.parentOffset(r))
			patches = append(patches, patch{up + 2, both32(uint32(t.rootAt))}, patch{up + 10, both32(uint32(t.rootSize))})
		}
	}
	little, big := t.pathTable(binary.LittleEndian), t.pathTable(binary.BigEndian)
	tables := make([]byte, 28)
	copy(tables, both32(uint32(len(little))))
	binary.LittleEndian.PutUint32(tables[8:], uint32(t.tablesAt))
	binary.BigEndian.PutUint32(tables[16:], uint32(t.tablesAt+sectors(int64(len(little)))))
	patches = append(patches, patch{t.Descriptor + 132, tables[:24]})
	chunks := []chunk{
		sectorChunk(t.rootAt, t.rootContent()), sectorChunk(t.dirAt, t.dirContent(additions, starts)),
		sectorChunk(t.tablesAt, little), sectorChunk(t.tablesAt+sectors(int64(len(little))), big),
	}
	return patches, chunks
}

// sectorChunk is content at a sector.
func sectorChunk(at int64, content []byte) chunk {
	return chunk{at * sector, int64(len(content)), bytes.NewReader(content)}
}

// parentOffset is the offset of the record ".." in a directory: after ".".
func (t *tree) parentOffset(dir iso9660.Record) int {
	length := make([]byte, 1)
	if _, err := t.i.ReadAt(length, int64(dir.Extent)*sector); err != nil {
		return 34
	}
	return int(length[0])
}

// rootContent is the root directory with Dir in it.
func (t *tree) rootContent() []byte {
	var b dirBuilder
	records := slices.Clone(t.records)
	for n := range 2 { // "." and ".."
		raw := bytes.Clone(records[n].Raw)
		copy(raw[2:], both32(uint32(t.rootAt)))
		copy(raw[10:], both32(uint32(t.rootSize)))
		if n == 0 {
			t.countLink(raw, records[n])
		}
		records[n].Raw = raw
	}
	own := iso9660.Record{Name: t.name(Dir), Raw: t.record(Dir, t.dirAt, t.dirSize, iso9660.FlagDirectory)}
	n := 2
	for n < len(records) && records[n].Name < own.Name {
		n++
	}
	for _, r := range slices.Insert(records, n, own) {
		b.add(r.Raw)
	}
	return b.bytes()
}

// countLink adds Dir to the link count of the root: PX, IEEE P1282, 4.1.1.
func (t *tree) countLink(raw []byte, r iso9660.Record) {
	start := len(raw) - len(r.SystemUse())
	for at := start; at+4 <= len(raw) && raw[at+2] >= 4; at += int(raw[at+2]) {
		if string(raw[at:at+2]) == "PX" && at+20 <= len(raw) {
			copy(raw[at+12:], both32(binary.LittleEndian.Uint32(raw[at+12:])+1))
		}
	}
}

// dirContent is the content of Dir.
func (t *tree) dirContent(additions []Addition, starts []int64) []byte {
	var b dirBuilder
	b.add(t.record("\x00", t.dirAt, t.dirSize, iso9660.FlagDirectory))
	b.add(t.record("\x01", t.rootAt, t.rootSize, iso9660.FlagDirectory))
	order := make([]int, len(additions))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int {
		return strings.Compare(t.name(additions[a].Name), t.name(additions[b].Name))
	})
	for _, n := range order {
		at, left := starts[n], additions[n].Size
		for {
			size := min(left, maxExtent)
			left -= size
			flags := byte(0)
			if left > 0 {
				flags = iso9660.FlagMultiExtent
			}
			b.add(t.record(additions[n].Name, at, size, flags))
			if at += sectors(size); left == 0 {
				break
			}
		}
	}
	return b.bytes()
}

// name is the spelling of a name in the tree.
func (t *tree) name(name string) string {
	dir := name == Dir
	switch {
	case name == "\x00" || name == "\x01":
		return name
	case t.Joliet:
		if !dir {
			name += ";1"
		}
		return ucs2(name)
	case dir:
		return strings.ToUpper(name)
	case !strings.Contains(name, "."):
		name += "."
	}
	return strings.ToUpper(name) + ";1"
}

// record makes a directory record, with the date of the root.
func (t *tree) record(name string, at, size int64, flags byte) []byte {
	id := t.name(name)
	r := make([]byte, 33, 255)
	copy(r[2:], both32(uint32(at)))
	copy(r[10:], both32(uint32(size)))
	copy(r[18:25], t.Root.Raw[18:25])
	r[25] = flags
	copy(r[28:], []byte{1, 0, 0, 1})
	r[32] = byte(len(id))
	r = append(r, id...)
	if len(r)%2 == 1 {
		r = append(r, 0)
	}
	if t.rockRidge {
		r = append(r, rockRidge(name, flags, t.Root.Raw[18:25])...)
	}
	r[0] = byte(len(r))
	return r
}

// rockRidge returns the entries for POSIX mode, times and name: IEEE P1282, 4.1.
func rockRidge(name string, flags byte, date []byte) []byte {
	mode, links := uint32(0o100444), uint32(1)
	if flags&iso9660.FlagDirectory != 0 {
		mode, links = 0o040555, 2
	}
	b := []byte{'P', 'X', 36, 1}
	for _, n := range []uint32{mode, links, 0, 0} {
		b = append(b, both32(n)...)
	}
	b = append(b, 'T', 'F', 26, 1, 0x0e)
	for range 3 { // modified, read, changed
		b = append(b, date...)
	}
	if name != "\x00" && name != "\x01" {
		b = append(append(b, 'N', 'M', byte(5+len(name)), 1, 0), name...)
	}
	if len(b)%2 == 1 {
		b = append(b, 0)
	}
	return b
}

// dirBuilder packs records, so that none crosses the end of a sector.
type dirBuilder struct{ b []byte }

func (d *dirBuilder) add(raw []byte) {
	if room := sector - len(d.b)%sector; room < len(raw) {
		d.b = append(d.b, make([]byte, room)...)
	}
	d.b = append(d.b, raw...)
}

func (d *dirBuilder) bytes() []byte {
	return append(d.b, make([]byte, sectors(int64(len(d.b)))*sector-int64(len(d.b)))...)
}

// both32 is a number in both byte orders: ECMA-119, 7.3.3.
func both32(n uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, n), n)
}

// folder is a row of a path table: ECMA-119, 9.4.
type folder struct {
	name   string
	extent uint32
	parent int // row, from 1
}

// pathTable is the table with the new extent of the root, and with Dir. Few programs read it.
func (t *tree) pathTable(order binary.AppendByteOrder) []byte {
	rows := t.folders()
	if len(rows) == 0 {
		rows = []folder{{"\x00", 0, 1}}
	}
	rows[0].extent = uint32(t.rootAt)
	own := folder{t.name(Dir), uint32(t.dirAt), 1}
	n := 1
	for n < len(rows) && rows[n].parent == 1 && rows[n].name < own.name {
		n++
	}
	for m := range rows {
		if rows[m].parent > n {
			rows[m].parent++ // the row of Dir is inserted before it
		}
	}
	var b []byte
	for _, row := range slices.Insert(rows, n, own) {
		b = append(b, byte(len(row.name)), 0)
		b = order.AppendUint32(b, row.extent)
		b = order.AppendUint16(b, uint16(row.parent))
		b = append(b, row.name...)
		if len(row.name)%2 == 1 {
			b = append(b, 0)
		}
	}
	return b
}

// maxTable bounds the base's own table, in bytes.
const maxTable = 1 << 20

// folders are the rows of the base's own table.
func (t *tree) folders() (rows []folder) {
	size := int64(binary.LittleEndian.Uint32(t.descr[132:]))
	at := int64(binary.LittleEndian.Uint32(t.descr[140:])) * sector
	if size > maxTable || at+size > t.i.Size() {
		return nil
	}
	table := make([]byte, size)
	if _, err := t.i.ReadAt(table, at); err != nil {
		return nil
	}
	for len(table) >= 8 {
		length := int(table[0])
		end := 8 + length + length%2
		if length == 0 || end > len(table) {
			break
		}
		rows = append(rows, folder{
			name: string(table[8 : 8+length]), extent: binary.LittleEndian.Uint32(table[2:]),
			parent: int(binary.LittleEndian.Uint16(table[6:])),
		})
		table = table[end:]
	}
	return rows
}
