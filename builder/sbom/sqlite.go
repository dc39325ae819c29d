package sbom

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
)

// sqlite reads tables of a database: https://www.sqlite.org/fileformat2.html. It ignores a write-ahead log.
type sqlite struct {
	content []byte
	// size of a page in bytes, and what of it is used.
	size, used int
	// left is how many bytes may still be read. Each page belongs to one tree, and each row to one page.
	left int
}

// errSQLite says that a database is damaged.
var errSQLite = errors.New("a damaged SQLite database")

func newSQLite(content []byte) *sqlite {
	s := &sqlite{content: content}
	if len(content) >= 100 {
		s.size = int(binary.BigEndian.Uint16(content[16:]))
		if s.size == 1 {
			s.size = 64 << 10
		}
		s.used = s.size - int(content[20])
	}
	return s
}

// blobs yields the last column of each row of a table, if it is a blob.
func (s *sqlite) blobs(table string) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		if s.used < 480 { // the minimum of the format
			yield(nil, errSQLite)
			return
		}
		s.left = 3 * len(s.content)
		root := uint32(0)
		_, err := s.rows(1, func(row []byte) (bool, error) {
			columns, err := columns(row)
			if err == nil && len(columns) == 5 && string(columns[0].value) == "table" && string(columns[1].value) == table {
				root = columns[3].number()
			}
			return true, err
		})
		if err == nil {
			_, err = s.rows(root, func(row []byte) (bool, error) {
				columns, err := columns(row)
				if err != nil || len(columns) == 0 {
					return true, err
				}
				last := columns[len(columns)-1]
				if last.kind < 12 || last.kind%2 != 0 {
					return true, nil
				}
				return yield(last.value, nil), nil
			})
		}
		if err != nil {
			yield(nil, err)
		}
	}
}

func (s *sqlite) page(number uint32) ([]byte, error) {
	start := (int64(number) - 1) * int64(s.size)
	if s.left -= s.size; s.left < 0 || start < 0 || start+int64(s.size) > int64(len(s.content)) {
		return nil, fmt.Errorf("%w: page %d", errSQLite, number)
	}
	return s.content[start : start+int64(s.size)][:s.used], nil
}

// rows calls f for each row of the tree below a page, until it returns false.
func (s *sqlite) rows(number uint32, f func(row []byte) (bool, error)) (more bool, err error) {
	const interior, leaf = 5, 13
	page, err := s.page(number)
	if err != nil {
		return false, err
	}
	head := page
	if number == 1 {
		head = page[100:]
	}
	kind, cells := head[0], int(binary.BigEndian.Uint16(head[3:]))
	pointers := head[8:]
	if kind == interior {
		pointers = head[12:]
	}
	if kind != interior && kind != leaf || 2*cells > len(pointers) {
		return false, fmt.Errorf("%w: page %d", errSQLite, number)
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(pointers[2*i:]))
		if at+4 > len(page) {
			return false, fmt.Errorf("%w: page %d", errSQLite, number)
		}
		if kind == interior {
			more, err = s.rows(binary.BigEndian.Uint32(page[at:]), f)
		} else if row, failed := s.row(page[at:]); failed != nil {
			err = failed
		} else {
			more, err = f(row)
		}
		if err != nil || !more {
			return false, err
		}
	}
	if kind == interior {
		return s.rows(binary.BigEndian.Uint32(head[8:]), f)
	}
	return true, nil
}

// row reads the payload of a cell in a leaf.
func (s *sqlite) row(cell []byte) ([]byte, error) {
	size, n := varint(cell)
	_, m := varint(cell[n:]) // the row's number
	if n == 0 || m == 0 || size > uint64(len(s.content)) {
		return nil, fmt.Errorf("%w: a cell", errSQLite)
	}
	if s.left -= n + m + int(size); s.left < 0 {
		return nil, fmt.Errorf("%w: cells that overlap", errSQLite)
	}
	cell = cell[n+m:]
	local, least := int(size), (s.used-12)*32/255-23
	if local > s.used-35 {
		if local = least + (int(size)-least)%(s.used-4); local > s.used-35 {
			local = least
		}
	}
	if local == int(size) {
		if local > len(cell) {
			return nil, fmt.Errorf("%w: a cell", errSQLite)
		}
		return cell[:local], nil
	}
	if local+4 > len(cell) {
		return nil, fmt.Errorf("%w: a cell", errSQLite)
	}
	row := append([]byte(nil), cell[:local]...)
	for next := binary.BigEndian.Uint32(cell[local:]); len(row) < int(size); {
		page, err := s.page(next)
		if err != nil {
			return nil, err
		}
		row = append(row, page[4:4+min(s.used-4, int(size)-len(row))]...)
		next = binary.BigEndian.Uint32(page)
	}
	return row, nil
}

// column is a value with its serial type.
type column struct {
	kind  uint64
	value []byte
}

// number is the value of an integer of up to 32 bits.
func (c column) number() (n uint32) {
	if c.kind == 9 {
		return 1
	}
	for _, b := range c.value {
		n = n<<8 | uint32(b)
	}
	return n
}

// maxColumns is the limit for the columns of a table: https://www.sqlite.org/limits.html
const maxColumns = 2000

// columns splits a record.
func columns(row []byte) (all []column, err error) {
	size, n := varint(row)
	if n == 0 || size < uint64(n) || size > uint64(len(row)) {
		return nil, fmt.Errorf("%w: a record", errSQLite)
	}
	head, body := row[n:size], row[size:]
	lengths := [...]uint64{0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0}
	for len(head) > 0 {
		kind, n := varint(head)
		length := (kind - 12) / 2
		if kind < uint64(len(lengths)) {
			length = lengths[kind]
		}
		if n == 0 || length > uint64(len(body)) || len(all) == maxColumns {
			return nil, fmt.Errorf("%w: a record", errSQLite)
		}
		all = append(all, column{kind, body[:length]})
		head, body = head[n:], body[length:]
	}
	return all, nil
}

// varint reads an integer of up to nine bytes, the highest first; n is 0 if there is none.
func varint(b []byte) (v uint64, n int) {
	for n = range min(len(b), 9) {
		if n == 8 {
			return v<<8 | uint64(b[n]), 9
		}
		v = v<<7 | uint64(b[n]&0x7f)
		if b[n]&0x80 == 0 {
			return v, n + 1
		}
	}
	return 0, 0
}
