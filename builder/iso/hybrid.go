package iso

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// block is the unit of partition tables, in bytes.
const block = 512

// Offsets of the four partitions and of the signature in a master boot record.
const (
	mbrPartitions = 446
	mbrSignature  = 510
)

// Header of a GUID partition table: UEFI specification, 5.3.2.
const (
	gptMagic      = "EFI PART"
	gptHeaderSize = 92
	gptMaxEntries = 32 << 10 // bytes; xorriso writes 248 entries of 128
)

// hybrid updates the partition tables by which an ISO boots from a disk: partitions that cover the
// whole image grow with it, and the backup GPT moves to the new end. size is the size of the
// volume, total the size of the image.
func (ed editor) hybrid(size int64) (patches []patch, chunks []chunk, total int64, err error) {
	head := make([]byte, 64*block)
	if _, err := ed.ReadAt(head, 0); err != nil {
		return nil, nil, 0, err
	}
	if head[mbrSignature] != 0x55 || head[mbrSignature+1] != 0xaa {
		return nil, nil, size, nil // it boots from CDs only
	}
	total = (size + gptMaxEntries + block + grain - 1) / grain * grain
	last := uint64(total/block) - 1
	covered := uint32(int64(ed.Volumes()[0].Sectors) * sector / block)
	for n := range 4 {
		p := head[mbrPartitions+16*n:][:16]
		start, count := binary.LittleEndian.Uint32(p[8:]), binary.LittleEndian.Uint32(p[12:])
		if start <= 1 && count > 0 && start+count >= covered {
			grown := uint32(min(last+1, 1<<32-1)) - start
			patches = append(patches, patch{int64(mbrPartitions + 16*n + 12), binary.LittleEndian.AppendUint32(nil, grown)})
		}
	}
	if string(head[block:block+8]) != gptMagic {
		return patches, nil, total, nil
	}
	primary, backup, err := growGPT(head[block:2*block], ed.Image, covered, last)
	if err != nil {
		return nil, nil, 0, err
	}
	return append(patches, primary...), backup, total, nil
}

// growGPT returns the primary table, within the base, and the backup at the end.
func growGPT(header []byte, i *Image, covered uint32, last uint64) ([]patch, []chunk, error) {
	header = bytes.Clone(header)
	at := int64(binary.LittleEndian.Uint64(header[72:])) * block
	count, size := int64(binary.LittleEndian.Uint32(header[80:])), int64(binary.LittleEndian.Uint32(header[84:]))
	if size < 128 || size > gptMaxEntries || count < 1 || count > gptMaxEntries/size ||
		at < 0 || at > i.Size()-count*size {
		return nil, nil, fmt.Errorf("%w: its GPT has %d entries of %d bytes at %d", iso9660.ErrCorrupt, count, size, at)
	}
	entries := make([]byte, count*size)
	if _, err := i.ReadAt(entries, at); err != nil {
		return nil, nil, err
	}
	blocks := uint64(count*size+block-1) / block
	was, usable := binary.LittleEndian.Uint64(header[48:]), last-blocks-1
	for n := range count {
		e := entries[n*size:][:size]
		start, end := binary.LittleEndian.Uint64(e[32:]), binary.LittleEndian.Uint64(e[40:])
		if !bytes.Equal(e[:16], make([]byte, 16)) && start <= 1 && (end >= was || end+1 >= uint64(covered)) {
			binary.LittleEndian.PutUint64(e[40:], usable)
		}
	}
	put := binary.LittleEndian.PutUint64
	put(header[32:], last)
	put(header[48:], usable)
	binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(entries))
	sealGPT(header)
	backup := bytes.Clone(header)
	put(backup[24:], last)
	put(backup[32:], binary.LittleEndian.Uint64(header[24:]))
	put(backup[72:], last-blocks)
	sealGPT(backup)
	return []patch{{block, header}, {at, entries}}, []chunk{
		{int64(last-blocks) * block, int64(len(entries)), bytes.NewReader(entries)},
		{int64(last) * block, block, bytes.NewReader(backup)},
	}, nil
}

// sealGPT computes the checksum of a header, with its own field set to 0.
func sealGPT(header []byte) {
	binary.LittleEndian.PutUint32(header[16:], 0)
	binary.LittleEndian.PutUint32(header[16:], crc32.ChecksumIEEE(header[:gptHeaderSize]))
}
