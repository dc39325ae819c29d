package iso

import (
	"encoding/binary"
	"slices"
)

// folder is a row of a path table: ECMA-119, 9.4.
type folder struct {
	name   string
	extent uint32
	parent int // row, from 1
}

// tableSize is the size of a path table with Dir, in bytes.
func (t *tree) tableSize() int64 {
	return int64(len(t.pathTable(binary.LittleEndian)))
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
