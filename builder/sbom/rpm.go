package sbom

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"strings"
)

// rpmFiles are the databases of rpm: of its backends sqlite, ndb and bdb, in the folders of Red Hat, SUSE and
// rpm-ostree.
func rpmFiles() (files []string) {
	for _, name := range []string{"rpmdb.sqlite", "Packages.db", "Packages"} {
		for _, dir := range []string{"var/lib/rpm", "usr/lib/sysimage/rpm", "usr/share/rpm"} {
			files = append(files, dir+"/"+name)
		}
	}
	return files
}

// errRPM says that a database of rpm is damaged.
var errRPM = errors.New("not a database of rpm that can be read")

// readRPM reads a database of rpm. github.com/knqyf263/go-rpmdb reads them too, but panics, or never ends, with some
// that are damaged: TestLibraryOfRPM.
func readRPM(content []byte, add func(Package) error) error {
	headers := rpmHeaders(content)
	if headers == nil {
		return errRPM
	}
	left := len(content) // headers do not overlap
	for header, err := range headers {
		if left -= len(header); err == nil && left < 0 {
			err = fmt.Errorf("%w: headers that overlap", errRPM)
		}
		if err != nil {
			return err
		}
		p, err := rpmPackage(header)
		if err == nil && p.Name != "gpg-pubkey" { // rpm keeps keys as packages
			err = add(p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rpmHeaders yields the header of each package; nil if the content is of no backend.
func rpmHeaders(content []byte) iter.Seq2[[]byte, error] {
	switch {
	case bytes.HasPrefix(content, []byte("SQLite format 3\x00")):
		return newSQLite(content).blobs("Packages")
	case bytes.HasPrefix(content, []byte("RpmP")):
		return ndbHeaders(content)
	case len(content) >= 512 && binary.LittleEndian.Uint32(content[12:]) == bdbMagic:
		return bdb{content, binary.LittleEndian}.headers
	case len(content) >= 512 && binary.BigEndian.Uint32(content[12:]) == bdbMagic:
		return bdb{content, binary.BigEndian}.headers
	}
	return nil
}

// Tags of a header: rpm, include/rpm/rpmtag.h.
const (
	rpmName    = 1000
	rpmVersion = 1001
	rpmRelease = 1002
	rpmEpoch   = 1003
	rpmArch    = 1022
	rpmSource  = 1044
)

// rpmPackage reads a header: two lengths, the entries, and their data. rpm, lib/header.c.
func rpmPackage(header []byte) (p Package, err error) {
	const head, entry = 8, 16
	if len(header) < head {
		return p, fmt.Errorf("%w: a short header", errRPM)
	}
	count := int64(binary.BigEndian.Uint32(header))
	if count > int64(len(header)-head)/entry {
		return p, fmt.Errorf("%w: a header of %d entries", errRPM, count)
	}
	index, data := header[head:head+count*entry], header[head+count*entry:]
	release := ""
	for ; len(index) > 0; index = index[entry:] {
		tag, offset := binary.BigEndian.Uint32(index), binary.BigEndian.Uint32(index[8:])
		if tag < rpmName || tag > rpmSource {
			continue
		}
		if int64(offset) >= int64(len(data)) {
			return p, fmt.Errorf("%w: an entry outside of its header", errRPM)
		}
		value := data[offset:]
		text, _, _ := bytes.Cut(value[:min(len(value), maxField+1)], []byte{0})
		switch tag {
		case rpmName:
			p.Name = string(text)
		case rpmVersion:
			p.Version = string(text)
		case rpmRelease:
			release = string(text)
		case rpmArch:
			p.Arch = string(text)
		case rpmSource:
			p.Source = string(text)
		case rpmEpoch:
			if len(value) >= 4 {
				p.Epoch = fmt.Sprint(binary.BigEndian.Uint32(value))
			}
		}
	}
	if release != "" {
		p.Version += "-" + release
	}
	p.Source = strings.TrimSuffix(p.Source, "(none)")
	return p, nil
}

// ndbHeaders reads the backend of SUSE: rpm, lib/backend/ndb/rpmpkg.c.
func ndbHeaders(content []byte) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		const unit, page = 16, 4096
		if len(content) < 2*unit {
			yield(nil, fmt.Errorf("%w: a short file", errRPM))
			return
		}
		slots := content[:min(int64(len(content)), int64(binary.LittleEndian.Uint32(content[12:]))*page)]
		for at := 2 * unit; at+unit <= len(slots); at += unit { // the header takes two slots
			slot := slots[at:]
			if binary.LittleEndian.Uint32(slot[4:]) == 0 {
				continue
			}
			start := int64(binary.LittleEndian.Uint32(slot[8:])) * unit
			if start+unit > int64(len(content)) || !bytes.HasPrefix(content[start:], []byte("BlbS")) {
				yield(nil, fmt.Errorf("%w: slot %d", errRPM, at/unit))
				return
			}
			size := int64(binary.LittleEndian.Uint32(content[start+12:]))
			if start+unit+size > int64(len(content)) {
				yield(nil, fmt.Errorf("%w: slot %d", errRPM, at/unit))
				return
			}
			if !yield(content[start+unit:start+unit+size], nil) {
				return
			}
		}
	}
}

const bdbMagic = 0x061561

// bdb reads a hash of Berkeley DB: libdb, src/dbinc/db_page.h.
type bdb struct {
	content []byte
	order   binary.ByteOrder
}

func (b bdb) headers(yield func([]byte, error) bool) {
	const pageHeader, hashUnsorted, hash, offPage = 26, 2, 13, 3
	size := int(b.order.Uint32(b.content[20:]))
	if size < 512 || size > 64<<10 {
		yield(nil, fmt.Errorf("%w: pages of %d bytes", errRPM, size))
		return
	}
	left := len(b.content) / size // no value can have more pages, nor all together
	for start := 0; start+size <= len(b.content); start += size {
		page := b.content[start : start+size]
		if page[25] != hash && page[25] != hashUnsorted {
			continue
		}
		entries := int(b.order.Uint16(page[20:]))
		for i := 1; i < entries && pageHeader+2*i+2 <= size; i += 2 { // keys and values alternate
			at := int(b.order.Uint16(page[pageHeader+2*i:]))
			if at+12 > size || page[at] != offPage {
				continue
			}
			value, err := b.overflow(b.order.Uint32(page[at+4:]), size, &left)
			if !yield(value, err) || err != nil {
				return
			}
		}
	}
}

// overflow reads a value that has pages of its own.
func (b bdb) overflow(number uint32, size int, left *int) (value []byte, err error) {
	const pageHeader, overflow = 26, 7
	for number != 0 {
		start := int64(number) * int64(size)
		if *left--; *left < 0 || start+int64(size) > int64(len(b.content)) {
			return nil, fmt.Errorf("%w: page %d", errRPM, number)
		}
		page := b.content[start : start+int64(size)]
		used := int(b.order.Uint16(page[22:]))
		if page[25] != overflow || pageHeader+used > size {
			return nil, fmt.Errorf("%w: page %d", errRPM, number)
		}
		value = append(value, page[pageHeader:pageHeader+used]...)
		number = b.order.Uint32(page[16:])
	}
	return value, nil
}
