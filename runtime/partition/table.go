package partition

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/pinbox/pinbox/storage/bytesize"
	"github.com/pinbox/pinbox/storage/fault"
	"github.com/pinbox/pinbox/storage/layout"
)

// linuxData is the type of a partition that holds a Linux file system: UEFI
// specification 5.3.3, as util-linux names it.
const linuxData = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"

// Errors of the partition table.
var (
	ErrTable = fault.New(fault.Input, "the disk has no GPT partition table",
		"name the disk that coreos-installer wrote")
	ErrSpace = fault.New(fault.Space, "the store does not fit on the disk",
		"use a larger disk, or remove images from the appliance")
	ErrTaken = fault.New(fault.Input, "there is a partition "+layout.PartitionLabel+" already",
		"remove that partition, or clear the whole disk: the node could not tell one partition from the other")
)

// table is a GPT in the form of `sfdisk --json`. Starts and sizes are in sectors.
type table struct {
	Label      string
	SectorSize int64
	Length     int `json:"table-length,string"` // how many entries it has room for; 0 for 128
	Partitions []entry
}

type entry struct {
	Node        string
	Start, Size int64
	Name        string
	Number      int `json:"-"` // of a new one
}

// readTable reads the table of a disk.
func readTable(ctx context.Context, disk string) (table, error) {
	text, err := sfdisk(ctx, "", "--json", disk)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return table{}, fault.Wrap(ErrTable, err)
	}
	if err != nil {
		return table{}, err
	}
	return parseTable(text)
}

// sfdisk runs sfdisk(8), which every CoreOS has to grow its root partition.
func sfdisk(ctx context.Context, script string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "sfdisk", args...)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("sfdisk: %w: %s", err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}

func parseTable(text []byte) (table, error) {
	var doc struct{ PartitionTable table }
	if err := json.Unmarshal(text, &doc); err != nil {
		return table{}, fmt.Errorf("output of sfdisk: %w", err)
	}
	t := doc.PartitionTable
	if t.SectorSize == 0 {
		t.SectorSize = 512 // sfdisk before 2.35 does not report it, and supports no other
	}
	if t.Label != "gpt" {
		return table{}, fmt.Errorf("%w, but %q", ErrTable, t.Label)
	}
	return t, nil
}

// store finds the partition with the store's label.
func (t table) store() (entry, bool) {
	for _, e := range t.Partitions {
		if e.Name == layout.PartitionLabel {
			return e, true
		}
	}
	return entry{}, false
}

const (
	alignment = 1 << 20
	// tableBytes is the size of the backup table at the end of the disk: 128 entries of 128
	// bytes. A sector with its header follows.
	tableBytes = 128 * 128
)

// allocate returns a partition of size bytes at the very end of the disk, so that the root
// partition, the last one of CoreOS, can grow up to it on its first boot. The backup table may be
// before it: coreos-installer does not move it from the end of the image, but the next program that
// writes the table does.
func (t table) allocate(disk, size int64) (e entry, err error) {
	last := disk - tableBytes - t.SectorSize // the backup table starts here
	bytes := (size + alignment - 1) / alignment * alignment
	start := (last - bytes) / alignment * alignment
	taken := int64(alignment)
	for _, p := range t.Partitions {
		taken = max(taken, (p.Start+p.Size)*t.SectorSize)
	}
	if start < taken {
		return e, fmt.Errorf("%w: it needs %s, and %s are free behind the last partition",
			ErrSpace, bytesize.Format(bytes), bytesize.Format(max(last-taken, 0)))
	}
	number, err := t.number()
	return entry{
		Start: start / t.SectorSize, Size: bytes / t.SectorSize, Name: layout.PartitionLabel, Number: number,
	}, err
}

// number returns the highest that is free: Ignition finds partitions by their numbers, and documents for CoreOS give
// the first free ones to others, such as 5 to /var.
func (t table) number() (int, error) {
	highest := layout.PartitionNumber
	if t.Length > 0 {
		highest = min(highest, t.Length)
	}
	taken := map[int]bool{}
	for _, p := range t.Partitions {
		if n, err := strconv.Atoi(p.Node[len(strings.TrimRight(p.Node, "0123456789")):]); err == nil {
			taken[n] = true
		}
	}
	for n := highest; n > 0; n-- {
		if !taken[n] {
			return n, nil
		}
	}
	return 0, fmt.Errorf("%w: all %d entries of its partition table are taken", ErrSpace, highest)
}

// script is the input of sfdisk, which takes the number from the digits before the colon.
func (e entry) script() string {
	return fmt.Sprintf("%d : start=%d, size=%d, type=%s, name=%q\n", e.Number, e.Start, e.Size, linuxData, e.Name)
}
