package sbom

import (
	"encoding/binary"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

const hostileSize = 16 << 20

// hostile are databases that name the same bytes many times, or have very many parts.
var hostile = map[string]struct {
	content func() []byte
	read    func(content []byte, add func(Package) error) error
	want    error
}{
	"ndb, all slots with one package": {slotsOfOneBlob, readRPM, errRPM},
	"sqlite, all cells with one row":  {cellsOfOneRow, readRPM, errSQLite},
	"sqlite, millions of columns":     {manyColumns, readRPM, errSQLite},
	"dpkg, millions of fields":        {manyFields, readDpkg, nil},
	"apk, millions of packages":       {func() []byte { return []byte(strings.Repeat("P:a\n\n", hostileSize/5)) }, readAPK, ErrTooMany},
}

// A database took hours, or all memory, if its parts overlapped or were very many.
func TestHostileDatabases(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // so that garbage counts little
	for name, c := range hostile {
		t.Run(name, func(t *testing.T) {
			content := c.content()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			done := make(chan error, 1)
			go func() { _, err := readDatabase(content, kind{name: "any", read: c.read}); done <- err }()
			select {
			case err := <-done:
				if !errors.Is(err, c.want) {
					t.Errorf("got %v, want %v", err, c.want)
				}
			case <-time.After(time.Minute):
				t.Fatal("got no result in a minute, want one in seconds")
			}
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 512<<20 {
				t.Errorf("got %d MiB more memory, want less than 512", grown>>20)
			}
		})
	}
}

// header is a header of rpm with so many entries that are of no use.
func header(entries int) []byte {
	h := make([]byte, 8+16*entries+8)
	binary.BigEndian.PutUint32(h, uint32(entries))
	binary.BigEndian.PutUint32(h[8:], rpmName)
	copy(h[8+16*entries:], "name")
	return h
}

// slotsOfOneBlob is half slots, and half the one package that all of them name.
func slotsOfOneBlob() []byte {
	content := ndbOf([][]byte{header(hostileSize / 32)})
	const page = 4096
	pages := hostileSize / 2 / page
	slots := make([]byte, pages*page)
	copy(slots, content[:page])
	binary.LittleEndian.PutUint32(slots[12:], uint32(pages))
	binary.LittleEndian.PutUint32(slots[32+8:], uint32(len(slots)/16))
	for at := 48; at < len(slots); at += 16 {
		copy(slots[at:at+16], slots[32:48])
	}
	return append(slots, content[page:]...)
}

// sqliteOf is a database whose table Packages has these pages of rows. Pages are 64 KiB large.
func sqliteOf(pages ...[]byte) []byte {
	const size = 64 << 10
	first := make([]byte, size)
	copy(first, "SQLite format 3\x00")
	binary.BigEndian.PutUint16(first[16:], 1)
	columns := []string{"table", "Packages", "Packages", "\x02", ""}
	record := []byte{6, 23, 29, 29, 1, 13}
	leaf(first, 100, append(record, strings.Join(columns, "")...))
	root := make([]byte, size)
	root[0] = 5
	binary.BigEndian.PutUint16(root[3:], uint16(len(pages)-1))
	for i := range pages {
		at := size - 8*(i+1)
		if i == len(pages)-1 {
			binary.BigEndian.PutUint32(root[8:], uint32(3+i))
			break
		}
		binary.BigEndian.PutUint16(root[12+2*i:], uint16(at))
		binary.BigEndian.PutUint32(root[at:], uint32(3+i))
	}
	content := append(first, root...)
	for _, p := range pages {
		content = append(content, append(p, make([]byte, size-len(p))...)...)
	}
	return content
}

// leaf writes one row at the end of a page, of at most 16383 bytes, whose header is at an offset.
func leaf(page []byte, at int, row []byte) {
	cell := append([]byte{byte(len(row)>>7) | 0x80, byte(len(row) & 0x7f), 1}, row...)
	start := len(page) - len(cell)
	copy(page[start:], cell)
	page[at] = 13
	binary.BigEndian.PutUint16(page[at+3:], 1)
	binary.BigEndian.PutUint16(page[at+8:], uint16(start))
}

// row is a row of the table Packages: a number and a header.
func row(header []byte) []byte {
	kind := 12 + 2*len(header)
	return append([]byte{5, 0, byte(kind>>14) | 0x80, byte(kind>>7) | 0x80, byte(kind & 0x7f)}, header...)
}

// cellsOfOneRow has pages full of pointers to one row, of 1998 empty columns.
func cellsOfOneRow() []byte {
	page := make([]byte, 64<<10)
	leaf(page, 0, append([]byte{2000>>7 | 0x80, 2000 & 0x7f}, make([]byte, 1998)...))
	cells := (64<<10 - 16<<10) / 2
	binary.BigEndian.PutUint16(page[3:], uint16(cells))
	for i := 1; i < cells; i++ {
		copy(page[8+2*i:], page[8:10])
	}
	pages := make([][]byte, hostileSize/len(page))
	for i := range pages {
		pages[i] = append([]byte(nil), page...)
	}
	return sqliteOf(pages...)
}

// manyColumns has one row that is a list of empty columns, in pages of its own.
func manyColumns() []byte {
	const size = 64 << 10
	length := hostileSize / 2
	page := make([]byte, size)
	page[0] = 13
	binary.BigEndian.PutUint16(page[3:], 1)
	used := size
	local := (used-12)*32/255 - 23
	if rest := local + (length-local)%(used-4); rest <= used-35 {
		local = rest
	}
	start := size - local - 16
	binary.BigEndian.PutUint16(page[8:], uint16(start))
	cell := page[start:start]
	for shift := 28; shift > 0; shift -= 7 {
		cell = append(cell, byte(length>>shift)|0x80)
	}
	cell = append(cell, byte(length&0x7f), 1)
	for shift := 28; shift > 0; shift -= 7 { // the head is all of the record
		cell = append(cell, byte(length>>shift)|0x80)
	}
	_ = append(cell, byte(length&0x7f))
	binary.BigEndian.PutUint32(page[start+6+local:], 4)
	content := sqliteOf(page)
	for number := uint32(5); len(content) < 3*size+length; number++ {
		overflow := make([]byte, size)
		binary.BigEndian.PutUint32(overflow, number)
		content = append(content, overflow...)
	}
	return content
}

func manyFields() []byte {
	var b strings.Builder
	for i := 0; b.Len() < 4*hostileSize; i++ { // the largest file that is read
		b.WriteString(strings.Repeat("a", 1+i%7))
		b.WriteString(string(rune('a'+i%26)) + string(rune('a'+i/26%26)) + string(rune('a'+i/676%26)) +
			string(rune('a'+i/17576%26)) + string(rune('a'+i/456976%26)) + ": \n")
	}
	return []byte(b.String())
}

// No database makes a reader panic, or gives more than is in it.
func FuzzPackages(f *testing.F) {
	f.Add([]byte("Package: a\nStatus: install ok installed\nVersion: 1\nSource: b (2)\n\n"))
	f.Add([]byte("P:a\nV:1\nA:x86_64\no:b\n\n"))
	headers := [][]byte{header(1), header(3)}
	f.Add(ndbOf(headers))
	f.Add(bdbOf(binary.LittleEndian, headers))
	f.Add(bdbOf(binary.BigEndian, headers))
	page := make([]byte, 4096)
	leaf(page, 0, row(header(1)))
	f.Add(sqliteOf(page))
	f.Fuzz(func(t *testing.T, content []byte) {
		for _, kind := range kinds {
			packages, _ := readDatabase(content, kind)
			if len(packages) > len(content) {
				t.Errorf("%s: got %d packages of %d bytes, want less", kind.name, len(packages), len(content))
			}
			for _, p := range packages {
				if err := p.check(); err != nil {
					t.Errorf("%s: got %v, want packages that are checked", kind.name, err)
				}
			}
		}
	})
}
