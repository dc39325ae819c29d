package iso

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// Member of the cpio archives that a boot loader passes to the kernel: initramfs.
type Member struct {
	Name    string
	Mode    uint32
	Content []byte
}

// Modes as in stat(2).
const (
	modeDir  = 0o040755
	modeFile = 0o100600
	modeType = 0o170000
	typeDir  = 0o040000
)

// maxArchive limits an area, and the unpacked size of all its archives, in bytes.
const maxArchive = 64 << 20

var (
	gzipMagic = []byte{0x1f, 0x8b}
	xzMagic   = []byte{0xfd, '7', 'z', 'X', 'Z', 0}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
)

// readArchives reads archives as the kernel does: one after the other, each plain or compressed,
// with zeros between (Documentation/driver-api/early-userspace in the kernel's source). A later
// member replaces an earlier one of its name.
func readArchives(area []byte) ([]Member, error) {
	all := members{at: map[string]int{}}
	budget := maxArchive
	for {
		area = bytes.TrimLeft(area, "\x00")
		if len(area) == 0 {
			return all.list, nil
		}
		plain, rest, err := decompress(area, budget)
		if err == nil && rest == nil {
			var used int
			used, err = all.read(plain)
			rest = area[used:]
		} else if err == nil {
			budget -= len(plain)
			for plain = bytes.TrimLeft(plain, "\x00"); err == nil && len(plain) > 0; plain = bytes.TrimLeft(plain, "\x00") {
				var used int
				used, err = all.read(plain)
				plain = plain[used:]
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: Ignition area: %w", iso9660.ErrCorrupt, err)
		}
		area = rest
	}
}

// members of several archives, in the order of their first appearance.
type members struct {
	list []Member
	at   map[string]int
}

// read adds the members of the archive at the start of b, and returns its length.
func (m *members) read(b []byte) (used int, err error) {
	more, used, err := readCpio(b)
	for _, member := range more {
		m.put(member)
	}
	return used, err
}

// put adds a member, or replaces the one of its name.
func (m *members) put(member Member) {
	if i, ok := m.at[member.Name]; ok {
		m.list[i] = member
		return
	}
	m.at[member.Name] = len(m.list)
	m.list = append(m.list, member)
}

// decompress unpacks the first archive. rest is the data after it, nil if the archive is plain.
func decompress(area []byte, budget int) (plain, rest []byte, err error) {
	var unpack func([]byte, int) ([]byte, int, error)
	switch {
	case bytes.HasPrefix(area, gzipMagic):
		unpack = gunzip
	case bytes.HasPrefix(area, xzMagic):
		unpack = unxz
	case bytes.HasPrefix(area, zstdMagic):
		unpack = unzstd
	default:
		return area, nil, nil
	}
	plain, used, err := unpack(area, budget)
	// The decompressor of a truncated archive reads on into the zero padding, and may report
	// any error, "too large" among them.
	if err != nil && (used > len(bytes.TrimRight(area, "\x00")) || errors.Is(err, io.ErrUnexpectedEOF)) {
		err = errors.New("the compressed archive is truncated, or damaged")
	}
	return plain, area[used:], err
}

// gunzip also returns how many bytes it read, as the others do.
func gunzip(area []byte, budget int) (plain []byte, used int, err error) {
	source := bytes.NewReader(area)
	z, err := gzip.NewReader(source)
	if err != nil {
		return nil, len(area) - source.Len(), err
	}
	z.Multistream(false)
	plain, err = readAll(z, budget)
	return plain, len(area) - source.Len(), err
}

func unxz(area []byte, budget int) (plain []byte, used int, err error) {
	source := bytes.NewReader(area)
	z, err := xz.ReaderConfig{SingleStream: true}.NewReader(source)
	if err != nil {
		return nil, len(area) - source.Len(), err
	}
	plain, err = readAll(z, budget)
	used = len(area) - source.Len()
	if err != nil && strings.Contains(err.Error(), "unexpected data after stream") {
		err, used = nil, used-1 // it read one byte of the data after it
	}
	return plain, used, err
}

// unzstd finds the end of the frame by its blocks, since the library reads ahead:
// RFC 8878, 3.1.1.
func unzstd(area []byte, budget int) (plain []byte, used int, err error) {
	var h zstd.Header
	if err := h.Decode(area); err != nil {
		return nil, 0, err
	}
	end := h.HeaderSize
	for last := false; !last; {
		if end+3 > len(area) {
			return nil, len(area), io.ErrUnexpectedEOF
		}
		block := int(area[end]) | int(area[end+1])<<8 | int(area[end+2])<<16
		last = block&1 == 1
		end += 3
		if block>>1&3 == 1 { // one byte, repeated
			end++
		} else {
			end += block >> 3
		}
	}
	if h.HasCheckSum {
		end += 4
	}
	if end > len(area) {
		return nil, len(area), io.ErrUnexpectedEOF
	}
	z, err := zstd.NewReader(bytes.NewReader(area[:end]), zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, end, err
	}
	defer z.Close()
	plain, err = readAll(z, budget)
	return plain, end, err
}

func readAll(r io.Reader, budget int) ([]byte, error) {
	plain, err := io.ReadAll(io.LimitReader(r, int64(budget)+1))
	if len(plain) > budget {
		return nil, fmt.Errorf("more than %d bytes in it", maxArchive)
	}
	return plain, err
}

// header of newc: cpio(5), fourteen numbers of eight hexadecimal digits.
const (
	newcMagic  = "070701"
	newcFields = 13
	newcHeader = 6 + 8*newcFields
	trailer    = "TRAILER!!!"
)

// readCpio reads a newc archive, and returns its length.
func readCpio(b []byte) (members []Member, used int, err error) {
	for at := 0; ; {
		if len(b)-at < newcHeader || string(b[at:at+6]) != newcMagic {
			return nil, 0, errors.New("not a cpio archive in newc format")
		}
		var fields [newcFields]int
		for i := range fields {
			n, err := strconv.ParseUint(string(b[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				return nil, 0, fmt.Errorf("cpio header: %w", err)
			}
			fields[i] = int(n)
		}
		nameEnd := at + newcHeader + fields[11]
		body := align(nameEnd, 4)
		if fields[11] < 1 || nameEnd > len(b) || body+fields[6] > len(b) {
			return nil, 0, errors.New("the cpio archive is truncated")
		}
		name, _, ended := strings.Cut(string(b[at+newcHeader:nameEnd]), "\x00") // dracut pads names with more of them
		if !ended {
			return nil, 0, errors.New("a name in the cpio archive has no end")
		}
		at = align(body+fields[6], 4)
		if name == trailer {
			return members, min(at, len(b)), nil
		}
		if fields[1]&modeType != typeDir && fields[4] > 1 {
			return nil, 0, fmt.Errorf("%s is a hard link", name) // another member has its content
		}
		members = append(members, Member{Name: fromRoot(name), Mode: uint32(fields[1]), Content: b[body : body+fields[6]]})
	}
}

// fromRoot is the canonical spelling of a name: the kernel unpacks in the root, where "./a", "/a"
// and "b/..//a" are one file (do_name in init/initramfs.c of its source). The root itself is ".".
func fromRoot(name string) string {
	return cmp.Or(strings.TrimPrefix(path.Clean("/"+name), "/"), ".")
}

// writeArchive packs members, each after its parent folders, and compresses them with gzip, which
// every kernel reads. The output is reproducible.
func writeArchive(members []Member) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	w := cpioWriter{w: z}
	seen := map[string]bool{}
	for _, m := range members {
		w.parents(m.Name, seen)
		if m.Mode&modeType != typeDir || !seen[m.Name] {
			w.write(m)
		}
		seen[m.Name] = true
	}
	w.write(Member{Name: trailer})
	if w.err != nil {
		return nil, w.err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

type cpioWriter struct {
	w     io.Writer
	inode int
	err   error
}

func (w *cpioWriter) parents(name string, seen map[string]bool) {
	dir := path.Dir(name)
	if dir == "." || dir == "/" || seen[dir] {
		return
	}
	w.parents(dir, seen)
	w.write(Member{Name: dir, Mode: modeDir})
	seen[dir] = true
}

func (w *cpioWriter) write(m Member) {
	w.inode++
	links := 1
	if m.Mode&modeType == typeDir {
		links = 2
	}
	var h strings.Builder
	h.WriteString(newcMagic)
	for _, n := range [newcFields]int{
		w.inode, int(m.Mode), 0, 0, links, 0, len(m.Content), 0, 0, 0, 0, len(m.Name) + 1, 0,
	} {
		fmt.Fprintf(&h, "%08x", n)
	}
	h.WriteString(m.Name + "\x00")
	for h.Len()%4 != 0 {
		h.WriteByte(0)
	}
	padding := make([]byte, align(len(m.Content), 4)-len(m.Content))
	for _, part := range [][]byte{[]byte(h.String()), m.Content, padding} {
		if _, err := w.w.Write(part); w.err == nil {
			w.err = err
		}
	}
}

func align(n, to int) int { return (n + to - 1) / to * to }
