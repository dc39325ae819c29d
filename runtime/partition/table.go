package partition

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/layout"
)

// linuxData is the type of a partition that holds a Linux file system: UEFI
// specification 5.3.3, as util-linux names it.
const linuxData = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

// What can be wrong with a disk.
var (
	ErrTable = errors.New("the disk has no GPT partition table")
	ErrSpace = errors.New("the store does not fit on the disk")
	ErrTaken = errors.New("there is a partition " + layout.PartitionLabel + " already")
)

// table is a GPT as `sfdisk --json` shows it. Starts and sizes are sectors.
type table struct {
	Label      string
	SectorSize int64
	Partitions []entry
}

type entry struct {
	Node        string
	Start, Size int64
	Name        string
}

func parseTable(text []byte) (table, error) {
	var doc struct{ PartitionTable table }
	if err := json.Unmarshal(text, &doc); err != nil {
		return table{}, fmt.Errorf("what sfdisk says: %w", err)
	}
	t := doc.PartitionTable
	if t.SectorSize == 0 {
		t.SectorSize = 512 // sfdisk before 2.35 does not say, and knows no other
	}
	if t.Label != "gpt" {
		return table{}, fmt.Errorf("%w, but %q", ErrTable, t.Label)
	}
	return t, nil
}

// named finds the partition with the store's label.
func (t table) named() (entry, bool) {
	for _, e := range t.Partitions {
		if e.Name == layout.PartitionLabel {
			return e, true
		}
	}
	return entry{}, false
}

const (
	alignment = 1 << 20
	// tableBytes is the second table, which ends the disk: 128 entries of 128
	// bytes, beside a sector for its header.
	tableBytes = 128 * 128
)

// place finds room for size bytes at the very end of the disk, so that the root
// partition, the last one of CoreOS, can grow up to it on its first boot. The
// second table may lie further in: coreos-installer leaves it where the image had
// it, and whoever writes the table next moves it.
func (t table) place(disk, size int64) (e entry, err error) {
	last := disk - tableBytes - t.SectorSize // the first byte that is not ours
	bytes := (size + alignment - 1) / alignment * alignment
	start := (last - bytes) / alignment * alignment
	taken := int64(alignment)
	for _, p := range t.Partitions {
		taken = max(taken, (p.Start+p.Size)*t.SectorSize)
	}
	if start < taken {
		return e, fmt.Errorf("%w: it takes %s, and behind the last partition %s are free",
			ErrSpace, bytesize.Format(bytes), bytesize.Format(max(last-taken, 0)))
	}
	return entry{Start: start / t.SectorSize, Size: bytes / t.SectorSize, Name: layout.PartitionLabel}, nil
}

// script tells `sfdisk --append` of the partition.
func (e entry) script() string {
	return fmt.Sprintf("start=%d, size=%d, type=%s, name=%q\n", e.Start, e.Size, linuxData, e.Name)
}
