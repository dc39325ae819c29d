package iso9660_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"path"
	"slices"

	"github.com/pinbox/pinbox/storage/iso9660"
)

// All files of a medium, and the content of one. OpenFile opens a file or a device instead.
func Example() {
	content := medium()
	image, err := iso9660.Open(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("label", image.Label)
	if err := list(image, image.FileVolume().Root, "/"); err != nil {
		fmt.Println(err)
		return
	}
	lock, err := image.Find("pinbox/lock.json")
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := io.ReadAll(lock.Reader())
	fmt.Printf("%s, %v\n", text, err)
	// Output:
	// label PINBOX
	// /pinbox/
	// /pinbox/lock.json, 14 bytes
	// {"version": 1}, <nil>
}

// list prints the paths below a directory.
func list(image *iso9660.Image, dir iso9660.Record, name string) error {
	records, err := image.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, r := range records[2:] { // after the directory itself and its parent
		child := path.Join(name, r.DisplayName())
		if !r.IsDir() {
			fmt.Printf("%s, %d bytes\n", child, r.Size)
			continue
		}
		fmt.Println(child + "/")
		if err := list(image, r, child); err != nil {
			return err
		}
	}
	return nil
}

// medium is the smallest image of one file in one directory.
func medium() []byte {
	const ( // sectors
		root = iso9660.FirstDescriptor + 2 + iota
		dir
		file
		end
	)
	const text = `{"version": 1}`
	image := make([]byte, end*iso9660.SectorSize)
	sector := func(n int) []byte { return image[n*iso9660.SectorSize:][:iso9660.SectorSize] }
	directory := func(name string, extent int) []byte {
		return record(name, extent, iso9660.SectorSize, iso9660.FlagDirectory)
	}

	primary := sector(iso9660.FirstDescriptor)
	primary[0] = iso9660.Primary
	copy(primary[1:], "CD001\x01")
	copy(primary[40:72], fmt.Sprintf("%-32s", "PINBOX"))
	binary.LittleEndian.PutUint32(primary[iso9660.VolumeSizeOffset:], end)
	binary.LittleEndian.PutUint16(primary[128:], iso9660.SectorSize)
	copy(primary[iso9660.RootRecordOffset:], directory("\x00", root))
	terminator := sector(iso9660.FirstDescriptor + 1)
	terminator[0] = iso9660.Terminator
	copy(terminator[1:], "CD001\x01")

	copy(sector(root), slices.Concat(directory("\x00", root), directory("\x01", root), directory("PINBOX", dir)))
	lock := record("LOCK.JSON;1", file, len(text), 0)
	copy(sector(dir), slices.Concat(directory("\x00", dir), directory("\x01", root), lock))
	copy(sector(file), text)
	return image
}

// record is a directory record without dates.
func record(name string, extent, size int, flags byte) []byte {
	r := make([]byte, (33+len(name)+1)/2*2)
	r[0], r[25], r[32] = byte(len(r)), flags, byte(len(name))
	binary.LittleEndian.PutUint32(r[2:], uint32(extent))
	binary.LittleEndian.PutUint32(r[10:], uint32(size))
	copy(r[33:], name)
	return r
}
