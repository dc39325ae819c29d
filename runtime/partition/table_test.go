package partition

import (
	"errors"
	"testing"
)

const gib = 1 << 30

// coreos is the layout of CoreOS, on a disk that is larger than its image.
func coreos(sector int64) table {
	return table{Label: "gpt", SectorSize: sector, Partitions: []entry{
		{Start: 1 << 20 / sector, Size: 1 << 20 / sector, Name: "BIOS-BOOT"},
		{Start: 2 << 20 / sector, Size: 127 << 20 / sector, Name: "EFI-SYSTEM"},
		{Start: 129 << 20 / sector, Size: 384 << 20 / sector, Name: "boot"},
		{Start: 513 << 20 / sector, Size: 2 * gib / sector, Name: "root"},
	}}
}

func TestPlaceIsTheEndOfTheDisk(t *testing.T) {
	for name, c := range map[string]struct {
		sector, disk, size int64
		start, bytes       int64 // 0: does not fit
	}{
		"the last whole MiB is the second table's": {512, 16 * gib, gib, 15*gib - 1<<20, gib},
		"rounded up to MiB":                        {512, 16 * gib, gib + 1, 15*gib - 2<<20, gib + 1<<20},
		"large sectors":                            {4096, 16 * gib, gib, 15*gib - 1<<20, gib},
		"a disk of an odd size":                    {512, 16*gib + 512*999, gib, 15 * gib, gib},
		"all that root leaves": {
			512, 16 * gib, 16*gib - 514<<20 - 2*gib, 513<<20 + 2*gib, 16*gib - 514<<20 - 2*gib,
		},
		"one byte more":        {512, 16 * gib, 16*gib - 514<<20 - 2*gib + 1, 0, 0},
		"larger than the disk": {512, 16 * gib, 17 * gib, 0, 0},
	} {
		e, err := coreos(c.sector).allocate(c.disk, c.size)
		switch {
		case c.bytes == 0:
			if !errors.Is(err, ErrSpace) {
				t.Errorf("%s: %+v, %v", name, e, err)
			}
		case err != nil || e.Start*c.sector != c.start || e.Size*c.sector != c.bytes:
			t.Errorf("%s: from %d, %d bytes; want %d, %d (%v)", name, e.Start*c.sector, e.Size*c.sector, c.start, c.bytes, err)
		}
	}
}

func TestOnlyGPT(t *testing.T) {
	for name, text := range map[string]string{
		"MBR":     `{"partitiontable": {"label": "dos", "sectorsize": 512}}`,
		"nothing": `{}`,
	} {
		if _, err := parseTable([]byte(text)); !errors.Is(err, ErrTable) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := parseTable([]byte("sfdisk: what?")); err == nil {
		t.Error("no JSON is fine")
	}
}
