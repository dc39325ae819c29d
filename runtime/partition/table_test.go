package partition

import (
	"errors"
	"testing"
)

const gib = 1 << 30

// coreosTable is the partition table of CoreOS, on a disk that is larger than its image.
func coreosTable(sector int64) table {
	return table{Label: "gpt", SectorSize: sector, Partitions: []entry{
		{Start: 1 << 20 / sector, Size: 1 << 20 / sector, Name: "BIOS-BOOT"},
		{Start: 2 << 20 / sector, Size: 127 << 20 / sector, Name: "EFI-SYSTEM"},
		{Start: 129 << 20 / sector, Size: 384 << 20 / sector, Name: "boot"},
		{Start: 513 << 20 / sector, Size: 2 * gib / sector, Name: "root"},
	}}
}

func TestAllocateAtTheEndOfTheDisk(t *testing.T) {
	for name, c := range map[string]struct {
		sector, disk, size int64
		start, bytes       int64 // 0: does not fit
	}{
		"before the MiB of the backup table": {512, 16 * gib, gib, 15*gib - 1<<20, gib},
		"rounded up to MiB":                  {512, 16 * gib, gib + 1, 15*gib - 2<<20, gib + 1<<20},
		"large sectors":                      {4096, 16 * gib, gib, 15*gib - 1<<20, gib},
		"a disk of an odd size":              {512, 16*gib + 512*999, gib, 15 * gib, gib},
		"all space behind root": {
			512, 16 * gib, 16*gib - 514<<20 - 2*gib, 513<<20 + 2*gib, 16*gib - 514<<20 - 2*gib,
		},
		"one byte more":        {512, 16 * gib, 16*gib - 514<<20 - 2*gib + 1, 0, 0},
		"larger than the disk": {512, 16 * gib, 17 * gib, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := coreosTable(c.sector).allocate(c.disk, c.size)
			switch {
			case c.bytes == 0:
				if !errors.Is(err, ErrSpace) {
					t.Errorf("got %+v, %v, want %v", e, err, ErrSpace)
				}
			case err != nil || e.Start*c.sector != c.start || e.Size*c.sector != c.bytes:
				t.Errorf("got %d bytes at %d, %v, want %d at %d", e.Size*c.sector, e.Start*c.sector, err, c.bytes, c.start)
			}
		})
	}
}

func TestNumberOfThePartition(t *testing.T) {
	for name, test := range map[string]struct {
		length int
		nodes  []string
		want   int // 0: none is free
	}{
		"of CoreOS":         {0, []string{"/dev/sda1", "/dev/sda2", "/dev/sda3", "/dev/sda4"}, 128},
		"NVMe":              {0, []string{"/dev/nvme0n1p4", "/dev/nvme0n1p128"}, 127},
		"by a link":         {0, []string{"/dev/disk/by-id/ata-X-part128", "/dev/disk/by-id/ata-X-part127"}, 126},
		"longer table":      {248, []string{"/dev/sda1"}, 128},
		"short table":       {4, []string{"/dev/sda1", "/dev/sda4"}, 3},
		"short, full table": {2, []string{"/dev/sda1", "/dev/sda2"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			table := table{Length: test.length}
			for _, node := range test.nodes {
				table.Partitions = append(table.Partitions, entry{Node: node})
			}
			got, err := table.number()
			if got != test.want || (test.want == 0) != errors.Is(err, ErrSpace) {
				t.Errorf("got %d, %v, want %d", got, err, test.want)
			}
		})
	}
}

func TestOnlyGPT(t *testing.T) {
	for name, text := range map[string]string{
		"MBR":     `{"partitiontable": {"label": "dos", "sectorsize": 512}}`,
		"nothing": `{}`,
	} {
		if _, err := parseTable([]byte(text)); !errors.Is(err, ErrTable) {
			t.Errorf("%s: got %v, want %v", name, err, ErrTable)
		}
	}
	if _, err := parseTable([]byte("sfdisk: what?")); err == nil {
		t.Error("invalid JSON: got no error, want one")
	}
}
