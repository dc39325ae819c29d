package iso

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/pinbox/pinbox/storage/atomicfile"
	"github.com/pinbox/pinbox/storage/iso9660"
	storagelayout "github.com/pinbox/pinbox/storage/layout"
)

// MediumLabel is the volume label of a medium with data only.
const MediumLabel = storagelayout.MediumLabel

// Sectors of an empty image.
const (
	emptyPrimary = iso9660.FirstDescriptor + iota
	emptyJoliet
	emptyTerminator
	emptyTables       // four: little- and big-endian, for both trees
	emptyPrimaryRoot  = emptyTables + 4
	emptyJolietRoot   = emptyPrimaryRoot + 1
	emptySectors      = emptyJolietRoot + 1
	emptyTableBytes   = 10
	maxLabelBytes     = 32
	maxJolietLabelLen = 16
)

// Create writes an image with these additions in Dir and nothing else: a medium that does not boot.
// The file appears when it is complete. perm is its mode, made its date.
func Create(
	ctx context.Context, out, label string, perm os.FileMode, made time.Time, additions []Addition, written func(int),
) error {
	if len(label) == 0 || len(label) > maxJolietLabelLen {
		return fmt.Errorf("label %q: it has 1 to %d characters", label, maxJolietLabelLen)
	}
	base := empty(label, made)
	i, err := Open(bytes.NewReader(base), int64(len(base)))
	if err != nil {
		return err
	}
	l, err := editor{i}.plan(additions, movedFile{})
	if err != nil {
		return err
	}
	if err := checkOutput(out, l); err != nil {
		return err
	}
	f, err := atomicfile.CreateLarge(out, perm)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err = f.Write(base); err == nil {
		err = finish(ctx, f, l, written)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	return nil
}

// empty is an image with an empty root: primary with Rock Ridge, and Joliet.
func empty(label string, made time.Time) []byte {
	b := make([]byte, emptySectors*sector)
	at := func(n int) []byte { return b[n*sector : (n+1)*sector] }
	made = made.UTC()
	date := []byte{
		byte(made.Year() - 1900), byte(made.Month()), byte(made.Day()),
		byte(made.Hour()), byte(made.Minute()), byte(made.Second()), 0,
	}
	descriptor(at(emptyPrimary), iso9660.Primary, pad(label, maxLabelBytes), emptyPrimaryRoot, emptyTables, date, made)
	wide := pad(ucs2(label), maxLabelBytes)
	descriptor(at(emptyJoliet), iso9660.Supplementary, wide, emptyJolietRoot, emptyTables+2, date, made)
	copy(at(emptyJoliet)[88:], "%/E")
	copy(at(emptyTerminator), "\xffCD001\x01")
	for n, root := range []uint32{emptyPrimaryRoot, emptyPrimaryRoot, emptyJolietRoot, emptyJolietRoot} {
		order := []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian}[n%2]
		copy(at(emptyTables+n), order.AppendUint16(order.AppendUint32([]byte{1, 0}, root), 1))
	}
	rootDir(at(emptyPrimaryRoot), emptyPrimaryRoot, date, true)
	rootDir(at(emptyJolietRoot), emptyJolietRoot, date, false)
	return b
}

// descriptor fills in a volume descriptor: ECMA-119, 8.4 and 8.5.
func descriptor(d []byte, kind byte, label string, root, tables uint32, date []byte, made time.Time) {
	d[0] = kind
	copy(d[1:], "CD001\x01")
	copy(d[8:40], strings.Repeat(" ", 32))
	copy(d[40:72], label)
	copy(d[iso9660.VolumeSizeOffset:], both32(emptySectors))
	for _, field := range []struct{ at, n uint16 }{{120, 1}, {124, 1}, {128, sector}} { // set, sequence, block
		binary.LittleEndian.PutUint16(d[field.at:], field.n)
		binary.BigEndian.PutUint16(d[field.at+2:], field.n)
	}
	copy(d[132:], both32(emptyTableBytes))
	binary.LittleEndian.PutUint32(d[140:], tables)
	binary.BigEndian.PutUint32(d[148:], tables+1)
	copy(d[iso9660.RootRecordOffset:], bareRecord("\x00", root, date))
	copy(d[190:813], strings.Repeat(" ", 813-190))
	stamp := made.UTC().Format("20060102150405") + "00\x00"
	copy(d[813:], stamp)
	copy(d[830:], stamp)
	copy(d[847:], strings.Repeat("0", 16)+"\x00"+strings.Repeat("0", 16)+"\x00")
	d[881] = 1
}

func bareRecord(id string, extent uint32, date []byte) []byte {
	r := make([]byte, 34)
	r[0] = 34
	copy(r[2:], both32(extent))
	copy(r[10:], both32(sector))
	copy(r[18:], date)
	r[25] = iso9660.FlagDirectory
	copy(r[28:], []byte{1, 0, 0, 1})
	r[32] = 1
	copy(r[33:], id)
	return r
}

// rootDir writes "." and "..". With Rock Ridge the first has the entries SP and ER, which kernels
// look for: IEEE P1281, 5.3 and 5.5.
func rootDir(dir []byte, extent uint32, date []byte, rock bool) {
	var b dirBuilder
	for n, id := range []string{"\x00", "\x01"} {
		r := bareRecord(id, extent, date)
		if rock && n == 0 {
			r = append(r, "SP\x07\x01\xbe\xef\x00"...)
		}
		if rock {
			r = append(r, rockRidge(id, iso9660.FlagDirectory, date)...)
		}
		if rock && n == 0 {
			const name, about = "RRIP_1991A", "POSIX"
			r = append(r, 'E', 'R', byte(8+len(name)+len(about)), 1, byte(len(name)), byte(len(about)), 0, 1)
			r = append(r, name+about...)
		}
		if len(r)%2 == 1 {
			r = append(r, 0)
		}
		r[0] = byte(len(r))
		b.add(r)
	}
	copy(dir, b.bytes())
}

func pad(s string, size int) string {
	blank := " "
	if strings.HasPrefix(s, "\x00") { // two bytes a character
		blank = "\x00 "
	}
	return (s + strings.Repeat(blank, size))[:size]
}

func ucs2(s string) string {
	var b []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		b = binary.BigEndian.AppendUint16(b, unit)
	}
	return string(b)
}

// finish applies the layout to a file that has the base already.
func finish(ctx context.Context, f *atomicfile.File, l layout, written func(int)) error {
	for _, c := range l.chunks {
		if err := copyAt(ctx, f.File, c, written); err != nil {
			return err
		}
	}
	for _, p := range l.patches {
		if _, err := f.WriteAt(p.content, p.offset); err != nil {
			return err
		}
	}
	if err := errors.Join(f.Truncate(l.size), atomicfile.Flush(ctx, f.File)); err != nil {
		return err
	}
	return f.Commit()
}
