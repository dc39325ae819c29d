package iso

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// DiskNotes says what a machine that boots the image from a disk, such as a USB stick, would not find as it is on a CD,
// and what a program that checks the image would not accept after an edit.
func (i *Image) DiskNotes() (notes []string, err error) {
	starts, err := i.partitions()
	if err != nil {
		return nil, err
	}
	for _, start := range starts {
		d := make([]byte, 6)
		if _, err := i.ReadAt(d, start*block+iso9660.FirstDescriptor*sector); err != nil || !bytes.Equal(d,
			[]byte("\x01CD001")) {
			continue
		}
		notes = append(notes,
			fmt.Sprintf("the partition of the ISO that begins at block %d has a tree of its own, without the "+
				"store (as of xorriso -partition_offset): a node that boots from a USB disk may mount that one, and not find the "+
				"store. Use a base without it, or a CD or virtual media", start))
	}
	md5, err := i.implantedMD5()
	if md5 {
		notes = append(notes,
			"the ISO has the implanted MD5 of its base, which no longer holds: checkisomd5 and rd.live.check "+
				"would refuse it. `pinbox verify` checks it instead")
	}
	return notes, err
}

// partitions are the blocks at which partitions begin that do not begin with the image.
func (i *Image) partitions() (starts []int64, err error) {
	head := make([]byte, 2*block)
	if _, err := i.ReadAt(head, 0); err != nil {
		return nil, err
	}
	if head[mbrSignature] != 0x55 || head[mbrSignature+1] != 0xaa {
		return nil, nil
	}
	add := func(start int64) {
		if start > 1 && start < i.Size()/block-iso9660.FirstDescriptor*sector/block {
			starts = append(starts, start)
		}
	}
	for n := range 4 {
		add(int64(binary.LittleEndian.Uint32(head[mbrPartitions+16*n+8:])))
	}
	if len(starts) > 0 || string(head[block:block+8]) != gptMagic {
		return starts, nil
	}
	at, size := int64(binary.LittleEndian.Uint64(head[block+72:]))*block,
		int64(binary.LittleEndian.Uint32(head[block+84:]))
	count := min(int64(binary.LittleEndian.Uint32(head[block+80:])), 128)
	if size < 128 || size > gptMaxEntries || at < 0 || at > i.Size()-count*size {
		return nil, nil // an edit names the damage
	}
	entries := make([]byte, count*size)
	if _, err := i.ReadAt(entries, at); err != nil {
		return nil, err
	}
	for n := range count {
		add(int64(binary.LittleEndian.Uint64(entries[n*size+32:])))
	}
	return starts, nil
}

// The part of a volume descriptor for programs, in which implantisomd5 writes: ECMA-119, 8.4.32, and libimplantisomd5.c
// of isomd5sum.
const (
	applicationUse     = 883
	applicationUseSize = 512
)

func (i *Image) implantedMD5() (bool, error) {
	use := make([]byte, applicationUseSize)
	_, err := i.ReadAt(use, iso9660.FirstDescriptor*sector+applicationUse)
	return bytes.Contains(use, []byte("ISO MD5SUM = ")), err
}
