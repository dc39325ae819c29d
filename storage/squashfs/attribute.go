package squashfs

import (
	"encoding/binary"
	"io/fs"
)

const (
	// maxXattrs bounds the attributes of a file, in bytes. The headers that the tar reader accepts
	// are shorter.
	maxXattrs     = 2 << 20
	maxXattrValue = 64 << 10 // XATTR_SIZE_MAX of the kernel
	// xattrElsewhere marks a reference to a value of another set: SQUASHFS_XATTR_VALUE_OOL.
	xattrElsewhere = 0x100
)

// Attributes are what an fs.FileInfo of an image lacks.
type Attributes struct {
	UID, GID uint32
	// Major and Minor number of a device.
	Major, Minor uint32
	// Xattrs by their full names.
	Xattrs map[string]string
}

// Attributes returns those of a file.
func (r *Reader) Attributes(name string) (a Attributes, err error) {
	n, err := r.walk("stat", name)
	if err != nil {
		return a, err
	}
	a.UID, a.GID = r.ids[n.UID], r.ids[n.GID]
	a.Major, a.Minor = n.numbers()
	if a.Xattrs, _, err = r.xattrSet(n.xattr); err != nil {
		err = &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	return a, err
}

// numbers are those of a device: new_encode_dev of the kernel's include/linux/kdev_t.h.
func (n *node) numbers() (major, minor uint32) {
	return n.device >> 8 & 0xfff, n.device&0xff | n.device>>12&0xfff00
}

// xattrSet reads a set of attributes, and returns its size in bytes.
func (r *Reader) xattrSet(number uint32) (attrs map[string]string, size int, err error) {
	if number == noXattrs {
		return nil, 0, nil
	}
	if r.sb.XattrTable >= r.sb.BytesUsed {
		return nil, 0, damaged("no attribute table")
	}
	var head struct {
		Pairs         uint64
		Count, Unused uint32
	}
	if err := r.decodeAt(&head, r.sb.XattrTable); err != nil {
		return nil, 0, err
	}
	if number >= head.Count {
		return nil, 0, damaged("attribute set %d of %d", number, head.Count)
	}
	var set xattrSet
	c, err := r.lookup(r.sb.XattrTable+uint64(binary.Size(head)), number, binary.Size(set))
	if err != nil {
		return nil, 0, err
	}
	if err := c.decode(&set); err != nil {
		return nil, 0, err
	}
	attrs = map[string]string{}
	pairs := r.cursorAt(head.Pairs, set.Ref)
	for range set.Count {
		name, value, err := pairs.xattr(head.Pairs)
		if err != nil {
			return nil, 0, err
		}
		if size += 8 + len(name) + len(value); size > maxXattrs {
			return nil, 0, damaged("more than %d bytes of attributes", maxXattrs)
		}
		attrs[name] = value
	}
	return attrs, size, nil
}

// xattr reads an attribute.
func (c *cursor) xattr(table uint64) (name, value string, err error) {
	var head struct{ Class, Size uint16 }
	if err := c.decode(&head); err != nil {
		return "", "", err
	}
	class := int(head.Class &^ xattrElsewhere)
	if class >= len(xattrPrefixes) {
		return "", "", damaged("an attribute of class %d", class)
	}
	short := make([]byte, head.Size)
	if err := c.read(short); err != nil {
		return "", "", err
	}
	value, err = c.xattrValue()
	if err == nil && head.Class&xattrElsewhere != 0 {
		if len(value) != 8 {
			return "", "", damaged("a reference of %d bytes to an attribute", len(value))
		}
		value, err = c.t.cursorAt(table, binary.LittleEndian.Uint64([]byte(value))).xattrValue()
	}
	return xattrPrefixes[class] + string(short), value, err
}

func (c *cursor) xattrValue() (string, error) {
	var size uint32
	if err := c.decode(&size); err != nil {
		return "", err
	}
	if size > maxXattrValue {
		return "", damaged("an attribute of %d bytes", size)
	}
	value := make([]byte, size)
	err := c.read(value)
	return string(value), err
}
