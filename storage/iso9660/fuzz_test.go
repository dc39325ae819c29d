package iso9660_test

import (
	"bytes"
	"testing"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// Whatever an image has, reading its folders ends.
func FuzzReadDir(f *testing.F) {
	const sector = 2048
	descriptor := make([]byte, sector)
	copy(descriptor, "\x01CD001\x01")
	copy(descriptor[156:], "\x22\x00\x14\x00\x00\x00\x00\x00\x00\x14\x00\x08\x00\x00\x00\x00\x08\x00")
	f.Add(descriptor, []byte("\x22\x00\x14\x00\x00\x00\x00\x00\x00\x14\x00\x08\x00\x00\x00\x00\x08\x00"))
	f.Fuzz(func(t *testing.T, descriptor, dir []byte) {
		content := make([]byte, 24*sector)
		copy(content[16*sector:17*sector], descriptor)
		copy(content[17*sector:], "\xffCD001\x01")
		copy(content[20*sector:], dir[:min(len(dir), 4*sector)])
		i, err := iso9660.Open(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return
		}
		for _, v := range i.Volumes() {
			records, err := i.ReadDir(v.Root)
			if err != nil {
				continue
			}
			for _, r := range records {
				_, _ = r.DisplayName(), r.SystemUse()
			}
		}
		_, _ = i.ReadText("pinbox/sums.txt")
		_, _ = i.Find("pinbox/store.squashfs")
	})
}
