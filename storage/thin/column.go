package thin

import (
	"encoding/binary"
	"errors"
)

// column is a sequence of numbers and strings: varints of encoding/binary, and strings with their length
// before them.
type column []byte

func (c *column) add(n int64)     { *c = binary.AppendUvarint(*c, uint64(n)) }
func (c *column) addDiff(n int64) { *c = binary.AppendVarint(*c, n) }

func (c *column) addString(s string) {
	c.add(int64(len(s)))
	*c = append(*c, s...)
}

var errShort = errors.New("its index ends early")

// decoder reads a column. After an error, all that it reads is 0.
type decoder struct {
	rest column
	err  error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err = err
	}
	d.rest = nil
}

// number reads a number from 0 to limit. what names it in the error.
func (d *decoder) number(what string, limit int64) int64 {
	v, n := binary.Uvarint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	if limit < 0 || v > uint64(limit) {
		d.fail(damaged("%s: %d, want at most %d", what, v, limit))
		return 0
	}
	d.rest = d.rest[n:]
	return int64(v)
}

// diff reads a number that was written as the difference to another one, and is from 0 to limit, too.
func (d *decoder) diff(what string, to, limit int64) int64 {
	v, n := binary.Varint(d.rest)
	if n <= 0 {
		d.fail(errShort)
		return 0
	}
	if v < -to || v > limit-to {
		d.fail(damaged("%s: %d by %d, want 0 to %d", what, to, v, limit))
		return 0
	}
	d.rest = d.rest[n:]
	return to + v
}

// bytes reads so many bytes.
func (d *decoder) bytes(n int) []byte {
	if n > len(d.rest) {
		d.fail(errShort)
		return make([]byte, n)
	}
	b := d.rest[:n]
	d.rest = d.rest[n:]
	return b
}
